"""A subscription to packets: a pcapng file that does not end."""

from __future__ import annotations

import gc
import io
import time
from base64 import b64decode
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import BODY, Frame, encode_frame
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ConnectionStartOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, SkippedBytes, StreamEnded
from amqproxy.control import packet_subscription as module
from amqproxy.control.packet_subscription import EVENT_BYTES, PacketSubscription
from amqproxy.control.record_subscription import RecordSubscription
from amqproxy.control.request import Subscribe
from amqproxy.control.tap_ring import TapRing
from amqproxy.dashboard.capture_source import one_leg
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.capture.records import read_records
from tests.example_count import example_count
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of

ACK = b"".join(frame.raw for frame in frames_of(1, BasicAck(1)))
STATE = ConnectionSnapshot(ts_ns=1, protocol="0-9-1")
SECTION_HEADER, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6


class Followed:
    def __init__(self, ring: int = 1 << 20, *, may_close: bool = False, **request: Any) -> None:
        self.metrics = Metrics()
        self.woken = 0
        self.ring = TapRing(ring, may_close=may_close)
        self.subscription = self.subscribe(**request)
        self.data = b""
        self.lost = 0
        self.samples: list[tuple[int | None, int]] = []

    def subscribe(self, **request: Any) -> PacketSubscription:
        return PacketSubscription(Subscribe(packets=True, **request), self.ring, self.metrics, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def read(self, subscription: PacketSubscription | None = None) -> list[bytes]:
        """Return the packets of the events so far."""
        follower = subscription or self.subscription
        found = []
        is_more = True
        while is_more:
            is_more = follower.look()
            for line in follower.events():
                event = msgspec.json.decode(line)
                if event["event"] == "lost":
                    self.lost += event["count"]
                elif event["event"] == "sample":
                    self.samples.append((event["shown"], event["of"]))
                else:
                    assert event["event"] == "packets"
                    found.append(b64decode(event["data"], validate=True))
        self.data += b"".join(found)
        return found

    def decoded(self, leg: str = "client") -> list[Any]:
        return list(read_decoded(io.BytesIO(self.data), leg=leg))


def blocks(data: bytes) -> list[int]:
    """The types of whole blocks, of which these bytes have to be."""
    found, position = [], 0
    while position < len(data):
        found.append(int.from_bytes(data[position : position + 4], "little"))
        position += int.from_bytes(data[position + 4 : position + 8], "little")
    assert position == len(data)
    return found


def frames(followed: Followed) -> int:
    return sum(len(each.frames) for each in followed.decoded() if isinstance(each, Amqp091DecodedFrames))


def test_the_first_event_needs_no_traffic_and_each_has_whole_blocks() -> None:
    followed = Followed()
    (first,) = followed.read()
    assert blocks(first) == [SECTION_HEADER, INTERFACE, INTERFACE]
    assert followed.read() == []
    followed.ring.saw_frames(Session(), CLIENT, frames_of(1, BasicPublish(), body=b"hello"))
    assert followed.woken == 1
    (second,) = followed.read()
    assert set(blocks(second)) == {PACKET}
    passed = followed.decoded()[0]
    assert b"".join(frame.raw for frame in passed.frames).endswith(b"hello\xce")


def test_frames_decode_to_the_records_that_a_subscriber_to_frames_gets() -> None:
    """Sessions from their beginning, joined, and with notes of rules."""
    followed = Followed()
    records = RecordSubscription(Subscribe(frames=True), followed.ring, followed.metrics, lambda: None)
    ring, sessions = followed.ring, [Session(number, f"10.0.0.{number}:4-10.0.0.9:5") for number in (1, 2, 3)]
    for session in sessions[1:]:
        ring.saw_protocol_header(session, HEADER)
        ring.saw_frames(session, SERVER, frames_of(0, BasicAck(1)))
    ring.saw_frames(
        sessions[1], CLIENT, frames_of(0, ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0secret"))
    )
    for number in range(50):
        for session in sessions:
            publish = frames_of(1, BasicPublish(routing_key=str(number)), body=b"x" * number)
            ring.saw_frames(session, CLIENT, Amqp091Chunk(b"".join(frame.raw for frame in publish), 0))
            note = Note(rules=("r",), verdict="tagged", tags=("a b",))
            ring.saw_frames(session, SERVER, frames_of(1, BasicDeliver("c", number, routing_key="k"), body=b"y"), note)
    ring.saw_end(sessions[2], "client closed")
    followed.read()
    while records.look():
        pass
    live = [msgspec.json.decode(each)["record"] for each in records.events()]
    found = [msgspec.json.decode(each.to_json()) for each in read_records(io.BytesIO(followed.data))]
    for each in (*live, *found):
        each.pop("stream")
    assert b"secret" not in followed.data
    assert found == live


@settings(max_examples=example_count(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from(Peer), st.sampled_from(("", "", "client", "upstream", "error", "gap"))
        ),
        max_size=30,
    )
)
def test_what_is_the_same_on_both_legs_comes_once(turns: list[tuple[int, Peer, str]]) -> None:
    """Sessions from their beginning, and joined; their ends have no violation before another, as on the wire."""
    both = Followed()
    once = both.subscribe(legs="once")
    sessions = [Session(number, f"10.0.0.{number}:4-10.0.0.9:5") for number in range(3)]
    both.ring.saw_protocol_header(sessions[0], HEADER)
    both.ring.saw_frames(sessions[0], SERVER, Amqp091Chunk(ACK, 0))
    ended = set()
    for number, sender, what in turns:
        if (number, sender) in ended:
            continue
        if what == "error":
            ended.add((number, sender))
            error = FrameError("too large")
            error.received = b"rubbish"
            both.ring.saw_violation(sessions[number], sender, error)
        elif what == "gap":
            both.ring.saw_gap(sessions[number], 3)
        else:
            note = Note(verdict="changed", leg=what) if what else NOTHING
            both.ring.saw_frames(sessions[number], sender, Amqp091Chunk(2 * ACK, 0), note)
    followed = [(both, both.subscription), (Followed(), once)]
    shown = []
    for each, subscription in followed:
        each.read(subscription)
        shown.append([without_place(each) for each in one_leg(iter(each.decoded("both")))])
    assert shown[1] == shown[0]
    assert len(followed[1][0].data) <= len(both.data)


def without_place(decoded: Decoded) -> dict[str, Any]:
    """A decoded item without what differs between two recordings of it: numbers of streams, and offsets in a leg."""
    found = {name: getattr(decoded, name) for name in decoded.__struct_fields__ if name not in ("stream", "offset")}
    if isinstance(decoded, Amqp091DecodedFrames):
        found["frames"] = b"".join(frame.raw for frame in decoded.frames)
    return found


def test_a_session_ends_for_its_reason() -> None:
    followed = Followed()
    session = Session()
    followed.ring.saw_frames(session, CLIENT, frames_of(1, BasicAck(1)))
    followed.ring.saw_end(session, "client closed")
    followed.read()
    assert [type(each) for each in followed.decoded()] == [Amqp091DecodedFrames, StreamEnded]


def test_from_the_start_of_the_ring() -> None:
    followed = Followed()
    followed.ring.saw_frames(Session(), CLIENT, frames_of(1, BasicAck(1)))
    late = followed.subscribe(since="start")
    followed.read(late)
    assert frames(followed) == 1


def test_what_is_too_old_is_missing_from_its_connection() -> None:
    followed = Followed()
    times = iter([time.time_ns() - 5 * 10**9, time.time_ns(), time.time_ns()])
    followed.ring = TapRing(1 << 20, lambda: next(times))
    subscription = followed.subscribe(max_age=1.0)
    for _ in range(2):
        followed.ring.saw_frames(Session(), CLIENT, Amqp091Chunk(3 * ACK, 0))
    followed.read(subscription)
    assert followed.lost == 3


def test_what_was_there_before_is_not_too_old() -> None:
    followed = Followed()
    now = time.time_ns()
    times = iter([now - 9 * 10**9, now - 8 * 10**9, now - 7 * 10**9, now, now])
    followed.ring = TapRing(1 << 20, lambda: next(times))
    session = Session()
    for _ in range(2):
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    subscription = followed.subscribe(max_age=1.0, since="start")
    followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    followed.ring.saw_snapshot(session, STATE)
    followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    followed.read(subscription)
    assert (frames(followed), followed.lost) == (3, 1)


def test_what_is_large_is_sent_in_parts() -> None:
    followed = Followed(1 << 24)
    followed.read()
    session = Session()
    followed.ring.saw_protocol_header(session, HEADER)
    followed.ring.saw_frames(session, CLIENT, [Frame(encode_frame(BODY, 1, bytes(4_000_000)))])
    events = followed.read()
    assert len(events) > 50
    for each in events:
        blocks(each)
        assert len(each) < 4 * EVENT_BYTES
    passed = followed.decoded()[1]
    assert len(passed.frames[0].raw) == 4_000_008


def test_many_small_ones_share_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENT_SECONDS", 60)
    followed = Followed(1 << 24)
    followed.read()
    for _ in range(3000):
        followed.ring.saw_frames(Session(), CLIENT, Amqp091Chunk(ACK, 0))
    events = followed.read()
    assert all(len(each) >= EVENT_BYTES for each in events[:-1])


def test_many_that_end_while_nobody_looks_take_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_A_LOOK", 3)
    followed = Followed(20_000)
    sessions = [Session(number) for number in range(100)]
    for session in sessions:
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
        followed.subscription.look()
    for session in sessions:
        followed.ring.saw_end(session, "client closed")
    for _ in range(100):
        followed.ring.saw_frames(Session(), CLIENT, Amqp091Chunk(100 * ACK, 0))
    followed.read()
    assert sum(isinstance(each, StreamEnded) for each in followed.decoded()) == 100


def test_who_is_too_slow_gets_some_sessions_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second loss on: with their states, and the number of frames of the others."""
    monkeypatch.setattr(module, "EVENT_SECONDS", 0)
    monkeypatch.setattr("amqproxy.control.session_sample.NARROWED_NS", 0)
    followed = Followed()
    now = 0
    followed.ring = TapRing(1 << 20, lambda: now)
    subscription = followed.subscribe(max_age=5.0)
    sessions = [Session(number, f"10.0.0.{number}:4-10.0.0.9:5") for number in range(10)]
    passed = 0
    for _ in range(9):
        now = time.time_ns() - 10**10
        followed.ring.saw_frames(sessions[0], CLIENT, Amqp091Chunk(ACK, 0))
        now = time.time_ns()
        for session in sessions:
            followed.ring.saw_snapshot(session, STATE)
            followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
        passed += 1 + len(sessions)
        followed.read(subscription)
    assert followed.samples[-1] == (1, 10)
    assert frames(followed) + followed.lost == passed
    assert followed.lost > passed / 2


def test_who_never_looks_makes_nothing_grow() -> None:
    """Sessions that came and went unseen leave nothing behind but their number of frames."""
    followed = Followed(20_000)
    for number in range(2_000):
        session = Session(number)
        followed.ring.saw_protocol_header(session, HEADER)
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(10 * ACK, 0))
        followed.ring.saw_end(session, "client closed")
    del session
    gc.collect()
    assert sum(isinstance(each, Session) for each in gc.get_objects()) < 50
    assert len(followed.subscription._entries._waiting) == 0
    followed.read()
    assert followed.lost > 20_000
    value = followed.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "tail"})
    assert value == followed.lost


def test_one_that_is_closed_keeps_nothing_of_what_was_not_sent() -> None:
    """An ended subscription may hold megabytes, and the garbage collector runs seldom."""
    followed = Followed(1 << 20)
    session = Session()
    followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(1_000 * ACK, 0))
    followed.subscription.look()
    followed.subscription.close()
    assert not followed.subscription._entries
    assert followed.subscription._pieces == []
    assert list(followed.subscription.events()) == []


def test_one_that_fails_is_shown_no_more_and_the_ring_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Followed(2_000)
    monkeypatch.setattr(followed.subscription, "_tap", None)
    other = followed.subscribe()
    session = Session()
    for _ in range(10):
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    followed.read(other)
    assert followed.lost + frames(followed) == 10


def test_with_more_credit_what_is_older_can_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time, so that the proxy has its turns; what was there before the subscription is wanted."""
    monkeypatch.setattr("amqproxy.control.tap_ring.MOST_SKIPPED", 4)
    now = time.time_ns()
    followed = Followed()
    followed.ring = TapRing(1 << 20, lambda: now)
    session = Session()
    followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    followed.subscription = followed.subscribe(credit=1, since="start")
    for ago in (*range(20, 10, -1), 1, 0):
        now = time.time_ns() - ago * 10**9
        if ago == 1:
            followed.ring.saw_snapshot(session, STATE)
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
    followed.subscription.look()
    followed.subscription.grant(1, 5.0)
    assert followed.subscription.look()
    assert followed.subscription._cursor.is_skipping
    followed.read()
    assert (frames(followed), followed.lost) == (3, 10)


def test_what_is_closed_is_not_woken_and_misses_nothing() -> None:
    followed = Followed(1_000)
    followed.read()
    followed.subscription.close()
    for _ in range(10):
        followed.ring.saw_frames(Session(), CLIENT, Amqp091Chunk(ACK, 0))
    assert followed.woken == 0
    assert list(followed.subscription.events()) == []


@settings(max_examples=example_count(60), deadline=None)
@given(
    st.integers(500, 20_000),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 100), st.integers(0, 4)), max_size=25),
)
def test_what_is_missing_is_missing_exactly(
    memory: int, may_close: bool, turns: list[tuple[int, bool, int, int]]
) -> None:
    """Of a session, one peer sends so many frames in one chunk, and then it is looked so many times.

    What was decoded, and what the gaps in a connection are said to have had, is all that passed on it.
    """
    followed = Followed(may_close=may_close)
    sessions = [Session(number, f"10.0.0.{number}:4-10.0.0.9:5") for number in (1, 2, 3)]
    passed: Counter[tuple[str, str]] = Counter()
    for session in sessions:
        followed.ring.saw_frames(session, CLIENT, Amqp091Chunk(ACK, 0))
        followed.ring.saw_frames(session, SERVER, Amqp091Chunk(ACK, 0))
        passed[session.name, "client"] = passed[session.name, "server"] = 1
        followed.read()
    followed.ring.memory = memory
    for number, is_client, frames, looks in turns:
        session, sender = sessions[number], CLIENT if is_client else SERVER
        followed.ring.saw_frames(session, sender, Amqp091Chunk(frames * ACK, 0))
        passed[session.name, str(sender)] += frames
        for _ in range(looks):
            followed.subscription.look()
    for session in sessions:
        followed.ring.saw_end(session, "client closed")
    followed.read()
    for leg in ("client", "upstream"):
        found: Counter[tuple[str, str]] = Counter()
        connections = dict(zip(sorted({each.connection for each in followed.decoded(leg)}), sessions, strict=True))
        shown = 0
        for each in followed.decoded(leg):
            name = connections[each.connection].name
            if isinstance(each, Amqp091DecodedFrames):
                found[name, each.sender] += len(each.frames)
                shown += len(each.frames)
            elif isinstance(each, SkippedBytes):
                found[name, each.sender] += each.lost // len(ACK)
        assert found == passed
        assert shown + followed.lost == passed.total()
