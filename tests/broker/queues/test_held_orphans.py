"""Message logs that keep what clients hold of a deleted queue."""

from __future__ import annotations

from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.definition_records import DurableOrphans
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.vhost import VirtualHost
from tests.broker.yard import message

NOW = 5.0


def stored() -> tuple[VirtualHost, Journal]:
    vhost = VirtualHost("v")
    journal = Journal()
    vhost.storage = QueueStorage(journal, lambda log_number, position, count: [])
    return vhost, journal


def held(vhost: VirtualHost, count: int, *, is_orphaning: bool = True) -> tuple[Queue, list[QueueEntry]]:
    """A deleted queue of five messages, of which a client holds some."""
    arguments = Table({"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "k"})
    queue = vhost.declare_queue(
        "q", None, durable=True, exclusive=False, auto_delete=False, arguments=arguments, now=NOW
    )
    for body in "abcde":
        queue.publish(message(body, delivery_mode=2), NOW)
    entries = [entry for _ in range(count) if (entry := queue.get(NOW)) is not None]
    queue.is_orphaning = is_orphaning
    vhost.remove_queue(queue)
    return queue, entries


def test_a_record_and_a_log_stay_until_the_last_is_settled() -> None:
    vhost, journal = stored()
    queue, entries = held(vhost, 3)
    (owner,) = journal.message_logs
    assert (owner.kind, owner.vhost, owner.priority) == ("queue", "v", 0)
    assert owner.name.startswith("orphans-")
    assert journal.message_logs[owner].messages == 3
    batch = journal.take_batch()
    (record,) = [each for each in batch.durables.values() if isinstance(each, DurableOrphans)]
    assert (record.name, record.queue, record.exchange, record.routing_key) == (owner.name, "q", "amq.fanout", "k")
    assert batch.logs_created == {journal.message_logs[owner].number: owner}
    queue.ack(entries[:1], NOW)
    queue.requeue(entries[1:2], NOW)
    assert journal.message_logs[owner].messages == 1
    queue.reject(entries[2:], NOW)
    assert journal.message_logs == {}
    assert journal.take_batch().durables == {record.key: None}


def test_nothing_stays_of_what_nobody_holds_or_has_nowhere_to_go() -> None:
    for count, is_orphaning in ((0, True), (2, False)):
        vhost, journal = stored()
        queue, entries = held(vhost, count, is_orphaning=is_orphaning)
        assert not any(isinstance(each, DurableOrphans) for each in journal.take_batch().durables.values())
        queue.ack(entries, NOW)
        assert not any(owner.name.startswith("orphans-") for owner in journal.message_logs)
