"""Recovery of the unsettled messages of deleted queues: they go to the queues' alternate exchanges."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.definition_records import AnyDurable, DurableOrphans
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job


def recover_orphans(broker: Broker, journal: Journal, durables: Iterable[AnyDurable], now: float) -> None:
    """Send on the messages that `HeldOrphans` kept, in steps; drop those whose virtual host is gone."""
    for record in durables:
        if not isinstance(record, DurableOrphans):
            continue
        vhost = broker.vhosts.get(record.vhost)
        if vhost is None:
            _forget(journal, record)
        else:
            vhost.work.do(_sending_on(vhost, journal, record, now), now)


def _sending_on(vhost: VirtualHost, journal: Journal, record: DurableOrphans, now: float) -> Job:
    arguments = [Field("x-dead-letter-exchange", "S", record.exchange)]
    if record.routing_key is not None:
        arguments.append(Field("x-dead-letter-routing-key", "S", record.routing_key))
    if record.max_priority:
        arguments.append(Field("x-max-priority", "I", record.max_priority))
    queue = Queue(record.name, vhost, durable=True, arguments=Table(arguments), now=now, storage=vhost.storage)
    queue.name = record.queue  # the name for x-death; the logs are open under the record's name
    with vhost.events.contained("held messages of a deleted queue not sent on", vhost=vhost.name, queue=record.queue):
        yield from orphaning(vhost, queue, now)
    _forget(journal, record)


def _forget(journal: Journal, record: DurableOrphans) -> None:
    journal.delete_logs("queue", record.vhost, record.name, record.max_priority + 1)
    journal.forget(record.key)
