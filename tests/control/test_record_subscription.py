"""A subscription to records."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionAttach
from amqproxy.amqp010.frame import encode_method as encode_amqp010_method
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelOpen, ConfirmSelect
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.control import record_subscription as module
from amqproxy.control.entry_parts import FRAMES_A_LOOK
from amqproxy.control.finding_watch import FindingReader
from amqproxy.control.record_subscription import RecordSubscription
from amqproxy.control.request import Subscribe
from amqproxy.control.request_error import RequestError
from amqproxy.control.tap_ring import TapRing
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk, Amqp091Frames
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot
from tests.amqp010.samples import HEADER as TRANSFER_HEADER
from tests.amqp010.samples import split
from tests.example_count import example_count
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Followed:
    def __init__(self, ring: int = 1 << 20, reader: FindingReader | None = None, **request: Any) -> None:
        self.metrics = Metrics()
        self.woken = 0
        self.session = Session()
        self.ring = TapRing(ring)
        self.subscription = RecordSubscription(Subscribe(**request), self.ring, self.metrics, self._wake, reader)

    def _wake(self) -> None:
        self.woken += 1

    def saw(self, *methods: Any, **content: Any) -> None:
        frames = [frame for method in methods for frame in frames_of(1, method, **content)]
        self.ring.saw_frames(self.session, CLIENT, frames)

    def events(self) -> list[dict[str, Any]]:
        while self.subscription.look():
            pass
        return [msgspec.json.decode(each) for each in self.subscription.events()]


def test_frames() -> None:
    followed = Followed(frames=True, body=2)
    assert followed.events() == []
    followed.saw(BasicPublish(exchange="e"), body=b"hello")
    events = followed.events()
    assert [(each["event"], each["record"]["type"]) for each in events] == [
        ("frame", "method"),
        ("frame", "header"),
        ("frame", "body"),
    ]
    assert events[2]["record"]["body"] == "he"
    assert followed.woken == 1
    assert followed.events() == []


def test_frames_of_what_a_filter_selects() -> None:
    followed = Followed(frames=True, filter="exchange == 'e'")
    followed.saw(BasicPublish(exchange="f"))
    followed.saw(BasicPublish(exchange="e"))
    assert [each["record"].get("method") for each in followed.events()] == ["basic.publish", None]


def test_messages_and_findings() -> None:
    findings = FindingReader(lambda: None)
    followed = Followed(messages=True, findings=True, filter="body == 'hello'", reader=findings)
    followed.saw(ChannelOpen(), BasicPublish(), body=b"hello")
    followed.saw(BasicPublish(), body=b"other")
    followed.saw(BasicAck(9))
    findings.add(b'{"event":"finding","record":{"kind":"unknown-ack"}}')
    events = followed.events()
    assert [(each["event"], each["record"].get("type") or each["record"]["kind"]) for each in events] == [
        ("message", "publish"),
        ("message", "settle"),
        ("finding", "unknown-ack"),
    ]


def test_who_is_too_slow_gets_the_newest_and_how_many_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED", 3)
    followed = Followed(messages=True)
    for number in range(10):
        followed.saw(BasicPublish(routing_key=str(number)))
    events = followed.events()
    # Its beginning was not seen, which is the oldest.
    assert [each["record"]["routing_key"] for each in events[:-1]] == ["7", "8", "9"]
    assert events[-1] == {"event": "lost", "count": 8}
    value = followed.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "tail"})
    assert value == 8
    assert followed.events() == []


@pytest.mark.parametrize("what", ["frames", "messages"])
def test_a_filter_that_fails_says_so_once(what: str) -> None:
    followed = Followed(filter="int(routing_key) > 3", **{what: True})
    for key in ("5", "x", "y"):
        followed.saw(BasicPublish(routing_key=key))
    first, *rest = followed.events()
    assert first["event"] == "warning"
    assert first["text"].startswith("'int(routing_key) > 3' fails on some records, which are shown (reported once): ")
    assert rest
    assert all(each["event"] == what.removesuffix("s") for each in rest)
    followed.saw(BasicPublish(routing_key="z"))
    assert "warning" not in {each["event"] for each in followed.events()}


def test_a_wrong_filter() -> None:
    with pytest.raises(RequestError, match="did you mean") as refused:
        Followed(messages=True, filter="exchang == 'e'")
    assert refused.value.name == "wrong-filter"


def test_what_is_closed_is_not_woken_and_makes_no_more() -> None:
    followed = Followed(frames=True)
    assert not followed.subscription.look()
    followed.subscription.close()
    followed.saw(BasicPublish())
    assert followed.woken == 0
    assert followed.events() == []


def test_each_has_its_own_pace_and_its_own_loss() -> None:
    slow, fast = Followed(3_500, frames=True), Followed(frames=True)
    for number in range(10):
        for each in (slow, fast):
            each.saw(BasicPublish(routing_key=str(number)))
        assert [each["record"].get("arguments", {}).get("routing_key") for each in fast.events()] == [str(number), None]
    events = slow.events()
    assert events[0] == {"event": "lost", "count": 16}
    assert [each["record"]["arguments"]["routing_key"] for each in events[1::2]] == ["8", "9"]
    value = slow.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "tail"})
    assert value == 16


def test_after_a_loss_nothing_is_guessed() -> None:
    """The publish that is not confirmed, and the confirm of another that was skipped."""
    followed = Followed(1 << 20, messages=True)
    followed.ring.saw_protocol_header(followed.session, HEADER)
    followed.saw(ChannelOpen(), ConfirmSelect(), BasicPublish(routing_key="a"))
    assert [each["record"]["outcome"] for each in followed.events()] == []
    followed.ring.memory = 2_000
    for number in range(10):
        followed.saw(BasicPublish(routing_key=str(number)))
    events = followed.events()
    assert events[0]["event"] == "lost"
    publishes = [each["record"] for each in events[1:] if each["record"]["type"] == "publish"]
    assert (publishes[0]["routing_key"], publishes[0]["outcome"]) == ("a", "unknown")
    followed.ring.saw_end(followed.session, "gone")
    assert {each["record"].get("outcome") for each in followed.events()} <= {"unknown", "open", "closed", "sent"}


def test_from_the_start_of_the_ring() -> None:
    ring = Followed(frames=True)
    ring.saw(BasicPublish(routing_key="before"))
    late = RecordSubscription(Subscribe(frames=True, since="start"), ring.ring, ring.metrics, lambda: None)
    now = RecordSubscription(Subscribe(frames=True), ring.ring, ring.metrics, lambda: None)
    ring.saw(BasicPublish(routing_key="after"))
    for each, keys in [(late, ["before", "after"]), (now, ["after"])]:
        while each.look():
            pass
        records = [msgspec.json.decode(event)["record"] for event in each.events()]
        assert [record["arguments"]["routing_key"] for record in records if record["type"] == "method"] == keys


def test_a_record_has_the_time_when_it_passed() -> None:
    times = iter([5_000, 7_000])
    followed = Followed(frames=True)
    followed.ring = TapRing(1 << 20, lambda: next(times))
    subscription = RecordSubscription(Subscribe(frames=True), followed.ring, followed.metrics, lambda: None)
    followed.saw(BasicAck(1))
    followed.saw(BasicAck(2))
    while subscription.look():
        pass
    assert [msgspec.json.decode(each)["record"]["ts_ns"] for each in subscription.events()] == [5_000, 7_000]


def test_who_was_too_slow_is_right_again_with_the_state_that_sessions_then_show() -> None:
    followed = Followed(ring=20_000, messages=True)
    asked = followed.ring.joins
    for number in range(100):
        followed.saw(BasicPublish(routing_key=str(number)))
    assert followed.events()[0]["event"] == "lost"
    assert followed.ring.joins == asked + 1
    channel = ChannelSnapshot(number=1, mode="confirm", published=100)
    snapshot = ConnectionSnapshot(ts_ns=time.time_ns(), protocol="0-9-1", channels=(channel,))
    followed.ring.saw_snapshot(followed.session, snapshot)
    followed.saw(BasicPublish(routing_key="known"))
    followed.ring.saw_frames(followed.session, SERVER, frames_of(1, BasicAck(101)))
    [event] = [each for each in followed.events() if each["record"].get("routing_key") == "known"]
    assert (event["record"]["outcome"], event["record"]["confirm_tag"]) == ("confirmed", 101)


def test_what_is_too_old_is_skipped() -> None:
    now = time.time_ns()
    times = iter([now - 5 * 10**9, now])
    followed = Followed(frames=True)
    ring = TapRing(1 << 20, lambda: next(times))
    subscription = RecordSubscription(Subscribe(frames=True, max_age=1.0), ring, followed.metrics, lambda: None)
    for number in (1, 2):
        ring.saw_frames(followed.session, CLIENT, frames_of(1, BasicAck(number)))
    while subscription.look():
        pass
    events = [msgspec.json.decode(each) for each in subscription.events()]
    assert events[0] == {"event": "lost", "count": 1}
    assert [each["record"]["arguments"]["delivery_tag"] for each in events[1:]] == [2]


def test_credit() -> None:
    followed = Followed(frames=True, credit=1)
    assert followed.subscription.may_send
    followed.subscription.credit = 0
    assert not followed.subscription.may_send
    followed.subscription.grant(2)
    assert (followed.subscription.credit, followed.woken) == (2, 1)
    with pytest.raises(RequestError) as refused:
        Followed(frames=True).subscription.grant(1)
    assert refused.value.name == "no-credit"


def test_a_large_chunk_is_looked_at_in_parts() -> None:
    followed = Followed(frames=True)
    data = b"".join(frame.raw for number in range(200) for frame in frames_of(1, BasicAck(number)))
    followed.ring.saw_frames(followed.session, CLIENT, Amqp091Chunk(data, 0))
    assert followed.subscription.look()
    assert len(list(followed.subscription.events())) == FRAMES_A_LOOK
    followed.ring.memory = 1
    followed.saw(BasicAck(1))  # and what is looked at is not lost with the rest
    events = followed.events()
    assert [each["event"] for each in events] == ["lost"] + ["frame"] * (200 - FRAMES_A_LOOK)
    assert events[0]["count"] == 1


@settings(max_examples=example_count(40), deadline=None)
@given(st.integers(500, 20_000), st.lists(st.tuples(st.integers(1, 200), st.integers(0, 5)), max_size=15))
def test_what_is_shown_and_what_is_lost_is_all_there_was(memory: int, turns: list[tuple[int, int]]) -> None:
    """So many frames pass in one chunk, and then it is looked so many times."""
    followed = Followed(memory, frames=True)
    passed = shown = lost = 0

    def count() -> None:
        nonlocal shown, lost
        for event in followed.subscription.events():
            record = msgspec.json.decode(event)
            shown += record["event"] == "frame"
            lost += record.get("count", 0)

    for frames, looks in turns:
        data = b"".join(frame.raw for number in range(frames) for frame in frames_of(1, BasicAck(number)))
        followed.ring.saw_frames(followed.session, CLIENT, Amqp091Chunk(data, 0))
        passed += frames
        for _ in range(looks):
            followed.subscription.look()
            count()
    while followed.subscription.look():
        count()
    count()
    assert shown + lost == passed


@pytest.mark.parametrize(
    "request_",
    [
        {"frames": True},
        {"frames": True, "filter": "size > 1"},
        {"messages": True},
        {"messages": True, "filter": "size > 1"},
    ],
    ids=str,
)
def test_one_that_is_closed_does_not_wait_for_the_garbage_collector(request_: dict[str, Any]) -> None:
    """The garbage collector runs seldom, and the backlog of a slow client may be megabytes."""
    gc.collect()
    gc.disable()
    try:
        followed = Followed(**request_)
        followed.saw(BasicPublish(exchange="e"), body=b"hello")
        followed.events()
        followed.saw(*[BasicPublish(exchange="e")] * FRAMES_A_LOOK, body=b"hello")
        followed.subscription.look()
        left = weakref.ref(followed.subscription)
        followed.subscription.close()
        del followed.subscription
        assert left() is None
    finally:
        gc.enable()


def test_a_chunk_of_many_frames_is_shown_in_parts() -> None:
    followed = Followed(frames=True)
    data = encode_method(1, BasicPublish(routing_key="é")) * (FRAMES_A_LOOK + 1)
    followed.ring.saw_frames(followed.session, CLIENT, Amqp091Chunk(data, 0))
    counts = []
    while followed.subscription.look():
        counts.append(len(list(followed.subscription.events())))
    assert counts == [FRAMES_A_LOOK, 1]


def refused(protocol: str, body: bytes) -> Amqp010Chunk | Amqp091Frames:
    """A message in more frames than are looked at together, which a rule refuses once it has been received."""
    if protocol == "0-9-1":
        return Amqp091Frames(frames_of(1, BasicPublish(routing_key="q"), body=body))
    transfer = Assembly(1, MessageTransfer("", 0, 0), TRANSFER_HEADER, body).encode(frame_max=12 + 1000)
    return Amqp010Chunk(transfer, 0, [0] * len(split(transfer)))


@pytest.mark.parametrize("protocol", ["0-9-1", "0-10"])
def test_a_refused_message_is_complete_with_its_last_part_only(protocol: str) -> None:
    followed = Followed(messages=True)
    if protocol == "0-10":
        attach = encode_amqp010_method(1, SessionAttach(name_=b"s"))
        followed.ring.saw_frames(followed.session, CLIENT, Amqp010Chunk(attach, 0, [None]))
    else:
        followed.saw(ChannelOpen())
    body = bytes(1000 * 3 * FRAMES_A_LOOK)
    chunk = refused(protocol, body)
    assert len(chunk) > 3 * FRAMES_A_LOOK
    followed.ring.saw_frames(followed.session, CLIENT, chunk, Note(("no",), (), "refused", "client"))
    (record,) = [each["record"] for each in followed.events() if each["record"]["type"] == "publish"]
    assert (record["size"], record["verdict"]) == (len(body), "refused")


def test_each_part_of_a_refused_message_has_the_rules_note() -> None:
    followed = Followed(frames=True)
    followed.ring.saw_frames(
        followed.session, CLIENT, refused("0-9-1", bytes(1000 * FRAMES_A_LOOK)), Note(("no",), (), "refused", "client")
    )
    records = [each["record"] for each in followed.events()]
    assert len(records) == FRAMES_A_LOOK + 2
    assert {(each["verdict"], each["leg"]) for each in records} == {("refused", "client")}
