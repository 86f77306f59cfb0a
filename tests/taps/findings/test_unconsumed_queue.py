"""Queues that get messages and have no consumer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.findings import unconsumed_queue
from amqproxy.taps.findings.finding import RecordNumber
from amqproxy.taps.findings.unconsumed_queue import UnconsumedQueue
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
    assert len(detector._vhosts) == 0
