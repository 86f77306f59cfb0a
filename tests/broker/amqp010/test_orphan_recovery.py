"""What clients hold of a deleted queue is on the disk until it is settled, or at the alternate exchange."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBind,
    MessageAccept,
    MessageReject,
    MessageRelease,
    QueueDeclare,
    QueueDelete,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from tests.broker.amqp010.client import Session010
from tests.broker.amqp010.stored import NOW, StoredBroker

LONG = b"2" * 5000
"""A body that is shared on the disk."""


def call(broker: StoredBroker, session: Session010, *commands: Command) -> None:
    """Send commands that are complete once the disk has them."""
    for command in commands:
        command_id = session.send(command)
        broker.go_on()
        assert command_id in session.take().completed, command


def put(session: Session010, body: bytes, *, mode: int = 2, priority: int = 4) -> None:
    properties = DeliveryProperties(routing_key="gone", delivery_mode=mode, priority=priority)
    session.transfer(body, delivery=properties)


def deleted(broker: StoredBroker, arguments: Map | None = None) -> Session010:
    """The holder of three messages of a queue that is deleted; two more were at the alternate exchange at once."""
    holder = broker.session()
    call(broker, holder, QueueDeclare("kept", durable=True), ExchangeBind("kept", "amq.fanout", ""))
    call(broker, holder, QueueDeclare("gone", "amq.fanout", durable=True, arguments=arguments))
    for number, body in enumerate((b"0", b"1", LONG, b"3", b"4")):
        put(holder, body, priority=number if arguments else 4)
    broker.go_on()
    holder.subscribe("gone", "d", messages=3)
    holder.take()
    assert len(holder.messages) == 3
    call(broker, broker.session(2, b"deleter"), QueueDelete("gone"))
    return holder


def left(directory: Path) -> list[bytes]:
    """What is at the alternate exchange after a kill, and a start that writes what it does; nothing else is left."""
    for _ in range(2):  # the second start finds what the first one has done
        with StoredBroker(directory, step=2) as broker:
            broker.go_on()
            found = sorted(each.body for each in broker.broker.vhosts["/"].queues["kept"])
            owners = {owner.name for owner in broker.journal.message_logs}
            assert owners <= {"kept"}
    return found


@pytest.mark.parametrize("arguments", [None, Map({"x-max-priority": 5}), Map({"x-queue-type": "quorum"})])
def test_a_kill_while_they_are_held(arguments: Map | None, tmp_path: Path) -> None:
    with StoredBroker(tmp_path / "first") as broker:
        broker.copies = tmp_path
        deleted(broker, arguments)
        broker.write()
    assert left(broker.copied[-1]) == [b"0", b"1", LONG, b"3", b"4"]


@pytest.mark.parametrize(
    ("settle", "bodies"),
    [
        (lambda ids: MessageAccept(ids), [b"3", b"4"]),
        (lambda ids: MessageRelease(ids), [b"0", b"1", LONG, b"3", b"4"]),
        (lambda ids: MessageReject(ids), [b"0", b"1", LONG, b"3", b"4"]),
    ],
    ids=["accept", "release", "reject"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_kill_after_some_are_settled(settle: object, bodies: list[bytes], count: int, tmp_path: Path) -> None:
    assert callable(settle)
    with StoredBroker(tmp_path / "first") as broker:
        holder = deleted(broker)
        broker.copies = tmp_path
        holder.send(settle(SequenceSet.of([position for position, _ in holder.messages[:count]])))
        broker.go_on()
        names = {owner.name for owner in broker.journal.message_logs}
        assert len(names - {"kept"}) == (count < 3)
    assert left(broker.copied[-1]) == sorted({*bodies, *[b"0", b"1", LONG][count:]})


def test_a_queue_of_the_same_name_has_none_of_it(tmp_path: Path) -> None:
    with StoredBroker(tmp_path / "first") as broker:
        holder = deleted(broker)
        call(broker, broker.session(3, b"third"), QueueDeclare("gone", durable=True))
        put(broker.session(4, b"fourth"), b"new")
        broker.copies = tmp_path
        broker.write()
        holder.client.connection.lose(NOW)
        holder.client.rest()
        broker.go_on()
    for directory in (broker.copied[0], broker.copied[-1]):
        with StoredBroker(directory) as again:
            again.go_on()
            queues = again.broker.vhosts["/"].queues
            assert [each.body for each in queues["gone"]] == [b"new"]
            assert sorted(each.body for each in queues["kept"]) == [b"0", b"1", LONG, b"3", b"4"]
            letter = next(iter(queues["kept"]))
            assert letter.properties.headers["x-death"][0]["queue"] == "gone"


def test_what_is_transient_is_lost_with_the_broker(tmp_path: Path) -> None:
    with StoredBroker(tmp_path / "first") as broker:
        holder = broker.session()
        call(broker, holder, QueueDeclare("kept", durable=True), ExchangeBind("kept", "amq.fanout", ""))
        call(broker, holder, QueueDeclare("gone", "amq.fanout", durable=True))
        put(holder, b"x", mode=1)
        holder.subscribe("gone", "d")
        call(broker, broker.session(2, b"deleter"), QueueDelete("gone"))
        broker.copies = tmp_path
        put(holder, b"y", mode=2)
        broker.go_on()
        assert {owner.name for owner in broker.journal.message_logs} <= {"kept"}


def test_without_the_virtual_host_nothing_is_left_of_it(tmp_path: Path) -> None:
    with StoredBroker(tmp_path / "first") as broker:
        deleted(broker)
        broker.copies = tmp_path
        broker.broker.delete_vhost("/", NOW)
        broker.go_on()
    with StoredBroker(broker.copied[-1]) as again:
        again.go_on()
        assert again.journal.message_logs == {}
