"""What is settled together, queue by queue; the rest is tested as a channel's client sees it."""

from __future__ import annotations

from amqproxy.broker.connection.deliveries import by_queue
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry
from tests.broker.yard import Yard, message


def test_by_queue() -> None:
    one, two = Yard().queue(), Yard().queue()
    entries = [QueueEntry(queue, message(), place, NEVER) for place, queue in enumerate((one, two, one, two, two))]
    assert list(by_queue([])) == []
    assert list(by_queue(entries[1:2])) == [(two, entries[1:2])]
    assert list(by_queue(entries)) == [
        (one, [entries[0], entries[2]]),
        (two, [entries[1], entries[3], entries[4]]),
    ]
