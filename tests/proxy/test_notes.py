"""Effects of rules as taps see them: frames as received on one leg, and as sent on the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ChannelClose, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.control.hub import Hub
from amqproxy.proxy.filtered_tap import FilteredTap
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Verdict
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import Record, record_frame
from amqproxy.taps.record_queue import RecordQueue
from amqproxy.taps.tap import Tap, TappedSession
from amqproxy.taps.text import line
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace_tap import TraceTap
from tests.proxy.stage import OPEN, staged
from tests.rules.scene import rule

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
TENANT = 'action = "rewrite"\nqueue.prefix = "t1."'
ON_PUBLISH = 'match.method = "basic.publish"\n'


class Recorder:
    """A tap that makes records."""

    may_miss_frames = False
    joins = 0

    def __init__(self) -> None:
        self.records: list[Record] = []

    def saw_protocol_header(self, session: TappedSession, data: bytes) -> None:
        """Nothing that rules have to do with."""

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        self.records += [
            record_frame(frame, ts_ns=0, stream=1, connection="c-p", sender=sender, note=note) for frame in frames
        ]

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        pass

    def saw_end(self, session: TappedSession, reason: str) -> None:
        pass

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        pass

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        raise AssertionError

    def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
        raise AssertionError


def summaries(records: list[Record]) -> list[tuple[object, ...]]:
    return [
        (
            str(each.sender),
            each.method or each.type,
            each.leg,
            each.verdict,
            each.rules,
            each.tags,
        )
        for each in records
    ]


async def recorded(script: str, *rules: str, filter: str = "") -> list[Record]:
    """The records of what a script plays, under these rules."""
    recorder = Recorder()
    tap: Tap = FilteredTap(recorder, Filter(filter), 1_000_000) if filter else recorder
    made = RuleSet([rule(f'name = "r{number}"\n{text}') for number, text in enumerate(rules)])
    async with staged(OPEN, tap=tap, rules=made) as stage:
        recorder.records.clear()
        await stage.play(script)
    return recorder.records


async def test_what_no_rule_acts_on_has_one_record_of_each_frame() -> None:
    records = await recorded(f">> {PUBLISH}", 'action = "log"\nmatch.method = "tx.*"')
    assert summaries(records) == [
        ("client", "basic.publish", None, None, None, None),
        ("client", "header", None, None, None, None),
        ("client", "body", None, None, None, None),
    ]
    assert b"leg" not in records[0].to_json()
    assert b"rules" not in records[0].to_json()


async def test_tags_are_in_all_records_of_a_message() -> None:
    records = await recorded(f">> {PUBLISH}", 'action = "tag"\ntags = ["slow"]\n' + ON_PUBLISH)
    assert summaries(records) == [
        ("client", each, None, "tagged", ("r0",), ("slow",)) for each in ("basic.publish", "header", "body")
    ]
    assert line(records[0]).endswith("[tagged by r0; tags: slow]")


async def test_what_is_changed_is_shown_as_received_and_as_sent() -> None:
    records = await recorded(
        f">> {PUBLISH}\nbroker: {PUBLISH}", 'action = "rewrite"\nqueue.prefix = "t1."\nfollows = []\n' + ON_PUBLISH
    )
    changed = ("changed", ("r0",), None)
    assert summaries(records) == [
        ("client", "basic.publish", "client", *changed),
        ("client", "basic.publish", "upstream", *changed),
        ("client", "header", None, *changed),
        ("client", "body", None, *changed),
    ]
    assert [(each.arguments or {})["routing_key"] for each in records[:2]] == ["key", "t1.key"]


async def test_what_is_refused_is_shown_on_the_clients_leg() -> None:
    records = await recorded(
        """
        >> 1: tx.select
        client: 1: channel.close 403
        broker: 1: channel.close 200
        """,
        'action = "refuse"\nmatch.method = "tx.*"',
    )
    assert summaries(records) == [
        ("client", "tx.select", "client", "refused", ("r0",), None),
        ("client", "channel.close", "upstream", "refused", ("r0",), None),
        ("server", "channel.close", "client", "refused", ("r0",), None),
    ]
    assert line(records[0]).endswith("tx.select  [client leg; refused by r0]")


@pytest.mark.parametrize(
    ("rules", "closer"),
    [
        (['action = "tag"\ntags = ["end"]\nmatch.method = "channel.close"'], "server"),
        (['action = "tag"\nmode = "shadow"\ntags = ["end"]\nmatch.method = "channel.close"'], "server"),
        (['action = "refuse"\nmatch.method = "queue.declare"'], "proxy"),
    ],
)
async def test_a_close_that_names_were_restored_in_is_the_brokers(rules: list[str], closer: str) -> None:
    queue = RecordQueue(100, 1 << 20, Metrics(), lambda: None)
    tap = TraceTap(queue, ObserverSettings(), memory=1 << 20)
    made = [rule(f'name = "r{number}"\n{text}') for number, text in enumerate([TENANT, *rules])]
    async with staged(OPEN, tap=tap, rules=RuleSet(made)) as stage:
        stage.client.socket.send(encode_method(1, QueueDeclare(queue="q", passive=True)))
        await wait_all_tasks_blocked()
        stage.broker.socket.send(
            encode_method(1, ChannelClose(404, "NOT_FOUND - no queue 't1.q' in vhost '/'", 50, 10))
        )
        await wait_all_tasks_blocked()
    [closed] = [
        each
        for each in queue.take_records()
        if isinstance(each, MessageRecord) and (each.type, each.outcome) == ("channel", "closed")
    ]
    assert closed.sender == closer
    assert (closed.reason == "NOT_FOUND - no queue 'q' in vhost '/'") == (closer == "server")


async def test_a_close_for_what_a_rule_has_made_too_large_is_the_proxys(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: Redact, context: CommandContext, memory: RuleState) -> Verdict:
        headers = Table({"x": "y" * 140_000})
        return Verdict(command=context.command.altered(properties=Properties(headers=headers)))

    monkeypatch.setattr(Redact, "decide", decide)
    script = f">> {PUBLISH}\nclient: 1: channel.close 541\nbroker: 1: channel.close 200"
    records = await recorded(script, 'action = "redact"\nbody = true\n' + ON_PUBLISH)
    [closed] = [each for each in records if each.method == "channel.close" and each.leg == "client"]
    assert (closed.sender, closed.verdict, closed.rules) == ("server", "refused", ("r0",))
    assert Note(verdict="refused", leg="client").is_of_proxy(SERVER)


async def test_what_was_received_is_masked_whichever_names_the_match_has() -> None:
    records = await recorded(
        f">> {PUBLISH}\nbroker: {PUBLISH}",
        'action = "rewrite"\nqueue.prefix = "t1."\nfollows = []\n' + ON_PUBLISH,
        'action = "redact"\nfields = ["routing_key"]\nbody = true\nmatch.routing_key = "t1.*"',
    )
    received = [each for each in records if each.leg == "client"]
    assert [each.method or each.type for each in received] == ["basic.publish", "header", "body"]
    assert not any(b'"key"' in each.to_json() or b"t1.key" in each.to_json() for each in records)
    assert records[-1].size == len("***")


async def test_only_a_field_of_a_publish_is_masked_and_the_publish_passes() -> None:
    records = await recorded(
        f">> {PUBLISH}\nbroker: {PUBLISH}", 'action = "redact"\nfields = ["routing_key"]\n' + ON_PUBLISH
    )
    assert [each.method or each.type for each in records] == ["basic.publish", "header", "body"]
    assert b'"routing_key":"***"' in records[0].to_json()


async def test_a_filter_may_ask_for_tags() -> None:
    tag = 'action = "tag"\ntags = ["slow"]\n' + ON_PUBLISH
    script = f">> {PUBLISH}\n>> 1: basic.qos"
    for filter_, found in (
        ("'slow' in tags", ["basic.publish", "header", "body"]),
        ("'slow' in tags && size == 5", ["basic.publish", "header", "body"]),
        ("'quick' in tags", []),
        ("size(tags) == 0 && method != 'channel.close'", ["basic.qos"]),
    ):
        records = await recorded(script, tag, filter=filter_)
        assert [each.method or each.type for each in records] == found


async def test_a_rule_may_ask_for_the_tags_of_those_before() -> None:
    records = await recorded(
        """
        >> 1: tx.select
        client: 1: channel.close 403
        broker: 1: channel.close 200
        """,
        'action = "tag"\ntags = ["bad"]\nmatch.method = "tx.*"',
        'action = "refuse"\nwhen = "\'bad\' in tags"',
    )
    assert summaries(records)[0] == ("client", "tx.select", "client", "refused", ("r0", "r1"), ("bad",))


async def test_what_cannot_be_shown_is_nobodys_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: Redact, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command, shown=context.command.altered(BasicPublish(exchange="x" * 256)))

    monkeypatch.setattr(Redact, "decide", decide)
    text = 'action = "redact"\nbody = true\n' + ON_PUBLISH
    assert await recorded(f">> {PUBLISH}\nbroker: {PUBLISH}", text) == []


async def test_a_delivery_tag_that_differs_between_the_legs_is_shown_on_both() -> None:
    """The client acknowledges tag 1, which the broker knows as 2: the first delivery was dropped."""
    drop = 'action = "fault"\nfault = {kind = "drop"}\nmatch.method = "basic.deliver"\nmatch.routing_key = "bad"'
    recorder, queue = Recorder(), RecordQueue(100, 1 << 20, Metrics(), lambda: None)
    hub = Hub(recorder, lambda tap: None)
    hub.add(TraceTap(queue, ObserverSettings(), memory=1 << 20))
    async with staged(OPEN, tap=hub, rules=RuleSet([rule(f'name = "r"\n{drop}')])) as stage:
        await stage.play("""
            >> 1: basic.consume
            << 1: basic.consume-ok
        """)
        recorder.records.clear()
        for tag, key in ((1, "bad"), (2, "good")):
            deliver = Command(1, BasicDeliver("t", tag, False, "e", key), body=b"x")
            stage.broker.socket.send(deliver.encode(0))
        await wait_all_tasks_blocked()
        stage.client.socket.send(encode_method(1, BasicAck(1)))
        await wait_all_tasks_blocked()
    acks = [
        (each.leg, (each.arguments or {})["delivery_tag"]) for each in recorder.records if each.method == "basic.ack"
    ]
    assert acks[-2:] == [("client", 1), ("upstream", 2)]
    delivered = [each for each in queue.take_records() if isinstance(each, MessageRecord) and each.type == "deliver"]
    assert [(each.delivery_tag, each.routing_key, each.outcome) for each in delivered] == [(1, "good", "acked")]
