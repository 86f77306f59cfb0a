"""Queues that get messages and have no consumer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.taps.amqp010.transfers import TransferProperties, TransferPublish
from amqproxy.taps.findings import unconsumed_queue
from amqproxy.taps.findings.finding import RecordNumber
from amqproxy.taps.findings.unconsumed_queue import UnconsumedQueue
from amqproxy.taps.trace.events import MessagePublished
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConsumerSnapshot
from tests.taps.findings.inspected_together import Member, Together


def consume(member: Member, queue: str = "q") -> None:
    member.ask(BasicConsume(queue=queue, consumer_tag="c"), BasicConsumeOk("c"))


def bind(member: Member) -> None:
    member.ask(QueueBind(queue="q", exchange="e", routing_key="k"), QueueBindOk())


def test_a_queue_that_is_filled_and_not_consumed() -> None:
    together = Together()
    declarer, publisher = together.connect(), together.connect()
    declarer.declare()
    for _ in range(3):
        publisher.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    together.look()
    (finding,) = together.findings
    assert finding.kind == "unconsumed-queue"
    assert finding.text == "queue q has got 3 messages, and nothing has consumed it for a minute"
    assert (finding.stream, finding.channel, finding.count) == (1, 1, 1)
    assert finding.evidence == (RecordNumber("server", 5), RecordNumber("client", 10, 2))


def test_it_is_found_by_what_passes_too() -> None:
    together = Together()
    member = together.connect()
    member.declare()
    member.client(BasicPublish(routing_key="q"))
    together.later(61)
    member.client(BasicPublish(routing_key="q"))
    assert [each.text for each in together.findings] == [
        "queue q has got 2 messages, and nothing has consumed it for a minute"
    ]
    together.later(61)
    member.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    assert len(together.findings) == 1


def test_messages_come_through_bindings() -> None:
    together = Together()
    member = together.connect()
    member.declare()
    bind(member)
    member.client(BasicPublish(exchange="e", routing_key="other"), BasicPublish(exchange="f", routing_key="k"))
    together.later(61)
    together.look()
    assert together.kinds == []
    member.client(BasicPublish(exchange="e", routing_key="k"))
    together.later(61)
    together.look()
    assert together.kinds == ["unconsumed-queue"]


def test_messages_that_were_there_before() -> None:
    together = Together()
    together.connect().declare(messages=7)
    together.later(61)
    together.look()
    assert [each.text for each in together.findings] == [
        "queue q has got 7 messages, and nothing has consumed it for a minute"
    ]


def later_consumed(member: Member) -> None:
    consume(member)


def by_the_last_declared(member: Member) -> None:
    consume(member, "")


def by_get(member: Member) -> None:
    member.ask(BasicGet(queue="q"), BasicGetEmpty())


def by_another(member: Member) -> None:
    consume(member._together.connect())


def by_one_that_was_joined(member: Member) -> None:
    consume(member._together.connect(joined=True))


def by_one_that_only_the_broker_knows(member: Member) -> None:
    member._together.connect().declare(consumers=1)


def deleted(member: Member) -> None:
    member.ask(QueueDelete(queue="q"), QueueDeleteOk())


def purged(member: Member) -> None:
    member.ask(QueuePurge(queue="q"), QueuePurgeOk())


@pytest.mark.parametrize(
    "then",
    [
        later_consumed,
        by_the_last_declared,
        by_get,
        by_another,
        by_one_that_was_joined,
        by_one_that_only_the_broker_knows,
        deleted,
        purged,
    ],
)
def test_what_is_right(then: Callable[[Member], None]) -> None:
    together = Together()
    member = together.connect()
    member.declare()
    member.client(BasicPublish(routing_key="q"))
    together.later(50)
    then(member)
    together.later(61)
    together.look()
    assert together.kinds == []


@pytest.mark.parametrize(
    "options",
    [
        {"exclusive": True},
        {"passive": True},
        {"arguments": Table({"x-message-ttl": 1000, "x-dead-letter-exchange": "retry"})},
        {"arguments": Table({"x-max-length": 1000})},
        {"arguments": Table({"x-queue-type": "stream"})},
    ],
    ids=str,
)
def test_queues_that_may_be_without_a_consumer(options: dict[str, object]) -> None:
    together = Together()
    member = together.connect()
    member.declare(**options)  # type: ignore[arg-type]
    member.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    assert together.kinds == []


def refused(member: Member) -> None:
    member.client(BasicPublish(routing_key="q"))
    member.server(ChannelClose(406, "PRECONDITION_FAILED - invalid CC header", 60, 40))


def connection_lost_for_it(member: Member) -> None:
    member.client(BasicPublish(routing_key="q"))
    member.server(ConnectionClose(501, "FRAME_ERROR", 60, 40), channel=0)


def expiring(member: Member) -> None:
    member.client(BasicPublish(routing_key="q"), properties=Properties(expiration="1000"))


def nacked(member: Member) -> None:
    member.ask(ConfirmSelect(), ConfirmSelectOk())
    member.client(*[BasicPublish(routing_key="q")] * 3)
    member.server(BasicNack(3, multiple=True))


def rolled_back(member: Member) -> None:
    member.ask(TxSelect(), TxSelectOk())
    member.client(*[BasicPublish(routing_key="q")] * 3)
    member.ask(TxRollback(), TxRollbackOk())


def returned(member: Member) -> None:
    member.client(BasicPublish(routing_key="q", mandatory=True))
    member.server(BasicReturn(312, "NO_ROUTE", "", "q"))


@pytest.mark.parametrize("publish", [refused, connection_lost_for_it, expiring, nacked, rolled_back, returned])
def test_messages_that_the_queue_does_not_keep(publish: Callable[[Member], None]) -> None:
    together = Together()
    together.connect().declare()
    publish(together.connect())
    together.later(61)
    together.look()
    assert together.kinds == []


@pytest.mark.parametrize(("ttl", "kinds"), [(None, ["unconsumed-queue"]), (1000, [])])
def test_transfers_with_a_ttl_expire_too(ttl: int | None, kinds: list[str]) -> None:
    together = Together()
    member = together.connect()
    member.declare()
    header = Header((DeliveryProperties(ttl=ttl, routing_key="q"),))
    event = MessagePublished(
        ts_ns=together.ts_ns,
        channel=1,
        number=1,
        method=TransferPublish.of(MessageTransfer(), header),
        properties=TransferProperties(header),
        size=1,
        awaits=True,
    )
    together.inspector.inspect(member._place, [event], None)
    together.later(61)
    together.look()
    assert together.kinds == kinds


def test_one_of_several_is_refused() -> None:
    together = Together()
    member = together.connect()
    member.declare()
    member.ask(ConfirmSelect(), ConfirmSelectOk())
    member.client(*[BasicPublish(routing_key="q")] * 3)
    member.server(BasicNack(2), BasicAck(1), BasicAck(3))
    together.later(61)
    together.look()
    (finding,) = together.findings
    assert "has got 2 messages" in finding.text


def test_a_channel_that_is_closed_for_something_else_takes_nothing_back() -> None:
    together = Together()
    member = together.connect()
    member.declare()
    member.client(BasicPublish(routing_key="q"))
    member.server(ChannelClose(404, "NOT_FOUND", 50, 10))
    together.later(61)
    together.look()
    assert together.kinds == ["unconsumed-queue"]


def test_a_queue_that_gets_nothing_is_right() -> None:
    together = Together()
    member = together.connect()
    member.declare()
    bind(member)
    member.ask(QueueUnbind(queue="q", exchange="e", routing_key="k"), QueueUnbindOk())
    member.client(BasicPublish(exchange="e", routing_key="k"))
    together.connect(vhost="another").client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    assert together.kinds == []


def test_while_a_connection_is_not_known_whole_nothing_is_found() -> None:
    together = Together()
    old, member = together.connect(joined=True), together.connect()
    old.client(BasicPublish())
    member.declare()
    member.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    assert together.kinds == []
    old.close()
    member.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    assert together.kinds == ["unconsumed-queue"]


def restored_consumer(queue: str | None = "q", **options: object) -> ChannelSnapshot:
    return ChannelSnapshot(number=1, mode="normal", consumers=(ConsumerSnapshot(tag="c", queue=queue),), **options)  # type: ignore[arg-type]


def after_a_minute(together: Together, publisher: Member) -> list[str]:
    """Return the findings of a minute after a publish."""
    publisher.client(BasicPublish(routing_key="q"))
    together.later(61)
    together.look()
    return [each.text for each in together.findings]


@pytest.mark.parametrize(
    "channel",
    [
        restored_consumer(),
        restored_consumer(None),
        restored_consumer("another"),
        ChannelSnapshot(number=1, mode="normal", knows_consumers=False),
    ],
    ids=["its consumer", "a consumer of an unknown queue", "one of another queue", "consumers may be missing"],
)
def test_a_consumer_of_a_snapshot_is_a_consumer(channel: ChannelSnapshot) -> None:
    together = Together()
    old, member = together.connect(joined=True), together.connect()
    old.restore(channel)
    member.declare()
    found = after_a_minute(together, member)
    assert (found != []) is (channel == restored_consumer("another"))


def test_a_consumer_of_a_snapshot_is_known_before_its_queue_is() -> None:
    together = Together()
    together.connect(joined=True).restore(restored_consumer())
    member = together.connect(joined=True)
    member.restore(ChannelSnapshot(number=1, mode="normal"), declared=[QueueDeclare(queue="q")])
    assert after_a_minute(together, member) == []


def test_a_queue_of_a_snapshot_is_found() -> None:
    together = Together()
    member = together.connect(joined=True)
    declared = [
        QueueBind(queue="q", exchange="e", routing_key="k"),
        QueueDeclare(queue="q"),
        QueueDeclare(queue="bounded", arguments=Table({"x-max-length": 9})),
    ]
    member.restore(
        ChannelSnapshot(number=1, mode="normal"), declared=declared, session=3, user="shop", address="10.0.0.7"
    )
    member.client(BasicPublish(exchange="e", routing_key="k"), BasicPublish(routing_key="bounded"))
    assert after_a_minute(together, member) == ["queue q has got 2 messages, and nothing has consumed it for a minute"]
    assert together.findings[0].stream == 1


def test_the_last_declared_queue_of_a_snapshot_is_the_one_without_a_name() -> None:
    together = Together()
    member, old = together.connect(), together.connect(joined=True)
    member.declare()
    old.restore(ChannelSnapshot(number=1, mode="normal", last_queue="q"))
    consume(old, "")
    assert after_a_minute(together, member) == []


def test_the_last_declared_queue_is_the_one_without_a_name() -> None:
    together = Together()
    member, another = together.connect(), together.connect()
    member.declare()
    another.declare()
    consume(another, "")
    assert after_a_minute(together, member) == []


def test_a_consumer_of_an_unknown_virtual_host_may_be_anywhere() -> None:
    together = Together()
    together.connect(joined=True).restore(ChannelSnapshot(number=1, mode="normal"), vhost=None)
    member = together.connect()
    member.declare()
    assert after_a_minute(together, member) == []


def test_a_loss_may_hide_a_purge_or_a_consumer_until_a_snapshot() -> None:
    together = Together()
    old, member = together.connect(), together.connect()
    member.declare()
    member.client(BasicPublish(routing_key="q"))
    old.lose()
    old.restore(ChannelSnapshot(number=1, mode="normal"))
    together.later(61)
    together.look()
    assert together.kinds == []
    assert len(after_a_minute(together, member)) == 1


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_QUEUES", "MAX_BINDINGS", "MAX_CONNECTIONS"):
        monkeypatch.setattr(unconsumed_queue, name, 5)
    together = Together()
    (detector,) = [each for each in together.inspector._detectors if isinstance(each, UnconsumedQueue)]
    members = [together.connect() for _ in range(20)]
    for number in range(20):
        members[0].declare(f"q{number}")
        members[0].client(BasicPublish(routing_key=f"q{number}"))
        members[0].ask(QueueBind(queue=f"q{number}", exchange="e", routing_key=f"k{number}"), QueueBindOk())
    assert len(detector._queues) == len(detector._waiting) == len(detector._bindings) == len(detector._vhosts) == 5
    together.later(61)
    together.look()
    assert len(together.findings) == 5
    members[0].ask(QueueDelete(queue="q19"), QueueDeleteOk())
    assert len(detector._queues) == len(detector._bindings) == 4
    for member in members:
        member.close()
    assert len(detector._vhosts) == len(detector._refusable) == 0
