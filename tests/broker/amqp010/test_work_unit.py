"""What waits for a commit."""

from __future__ import annotations

from collections.abc import Generator
from unittest.mock import patch

import pytest

from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp010 import work_unit
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.paged_messages import MESSAGE_COST
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.vhost import VirtualHost
from tests.broker.yard import message

NOW = 5.0


def declared(vhost: VirtualHost, name: str, **arguments: object) -> Queue:
    table = Table({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    return vhost.declare_queue(name, None, durable=False, exclusive=False, auto_delete=False, arguments=table, now=NOW)


def run(job: Generator[None, float, float]) -> None:
    """Do it in one turn."""
    assert list(job) == []


def test_each_message_goes_to_each_of_its_queues() -> None:
    vhost = VirtualHost("v")
    queues = tuple(declared(vhost, f"q{number}") for number in range(work_unit.AT_ONCE + 3))
    unit = WorkUnit(vhost)
    unit.publish(message("a"), queues)
    unit.publish(message("b"), queues[:1])
    assert unit
    assert vhost.uncommitted_bytes == 2 * MESSAGE_COST + 2
    assert {queue.message_count for queue in queues} == {0}
    run(unit.committing(DurabilityTicket(), NOW))
    assert not unit
    assert vhost.uncommitted_bytes == 0
    assert {queue.message_count for queue in queues[1:]} == {1}
    assert [each.body for each in queues[0]] == [b"a", b"b"]


def test_what_is_accepted_goes_with_the_commit() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q")
    for body in "abc":
        queue.publish(message(body), NOW)
    entries = []
    for _ in range(2):
        entry = queue.get(NOW)
        assert entry is not None
        queue.hold(entry, None)
        entries.append(entry)
    unit = WorkUnit(vhost)
    unit.accept(entries[:1])
    run(unit.committing(DurabilityTicket(), NOW))
    assert queue.unacked == 1
    unit.accept(entries[1:])
    run(unit.giving_back(NOW))
    assert [each.body for each in queue] == [b"b", b"c"]


def test_a_large_one_takes_its_turns() -> None:
    vhost = VirtualHost("v")
    vhost.work.quantum.limit(10)
    queue = declared(vhost, "q")
    unit = WorkUnit(vhost)
    for number in range(3 * work_unit.AT_ONCE):
        unit.publish(message(f"{number}"), (queue,))
    vhost.work.do(unit.committing(DurabilityTicket(), NOW), NOW)
    turns = 0
    while vhost.work:
        vhost.work.go_on(NOW)
        turns += 1
    assert turns > 10
    assert queue.message_count == 3 * work_unit.AT_ONCE


def test_a_queue_is_asked_about_all_it_is_to_have() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q", max_length=2, overflow="reject-publish")
    unit = WorkUnit(vhost)
    for _ in range(2):
        unit.publish(message("x"), (queue,))
        unit.check()
    unit.publish(message("x"), (queue,))
    with pytest.raises(ResourceLimitExceeded, match="full"):
        unit.check()
    vhost.remove_queue(queue)
    unit.check()
    run(unit.committing(DurabilityTicket(), NOW))


def test_what_was_admitted_is_not_refused() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q", max_length=1, overflow="reject-publish")
    unit = WorkUnit(vhost)
    unit.publish(message("x"), (queue,))
    unit.check()
    assert queue.publish(message("beside"), NOW)
    run(unit.committing(DurabilityTicket(), NOW))
    assert queue.message_count == 2
    assert not queue.publish(message("more"), NOW)


def test_it_is_bounded() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q")
    with patch.object(work_unit, "MOST_OPERATIONS", 2):
        unit = WorkUnit(vhost)
        unit.publish(message("x"), (queue,))
        unit.publish(message("x"), (queue,))
        with pytest.raises(ResourceLimitExceeded):
            unit.publish(message("x"), (queue,))
    with patch.object(work_unit, "MOST_BYTES", 5):
        unit = WorkUnit(vhost)
        with pytest.raises(ResourceLimitExceeded):
            unit.publish(message("xxxxxx"), (queue,))


def test_what_it_takes_is_the_brokers_memory() -> None:
    broker = Broker()
    vhost = broker.vhosts["/"]
    queue = declared(vhost, "q")
    before = broker.bytes_in_memory
    unit = WorkUnit(vhost)
    unit.publish(message("x" * 1000), (queue,))
    assert broker.bytes_in_memory == before + 1000 + MESSAGE_COST
    run(unit.giving_back(NOW))
    assert broker.bytes_in_memory == before
