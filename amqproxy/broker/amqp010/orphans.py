"""Messages left in a queue that is deleted: section 10.6 has them sent to the queue's alternate exchange."""

from __future__ import annotations

from collections.abc import Generator

from amqproxy.broker.queues.queue import DELETED, Queue
from amqproxy.broker.vhost import VirtualHost

LETTER = 8
"""Quantum cost of sending a message on."""


def orphaning(vhost: VirtualHost, queue: Queue, now: float) -> Generator[None, float, float]:
    """Send a queue's messages to its alternate exchange, if it has one; in steps."""
    quantum = vhost.work.quantum
    if queue.settings.dead_letter_exchange is not None and queue.takes_back:
        queue.is_orphaning = True
    while queue.settings.dead_letter_exchange is not None and queue.takes_back and not queue.is_deleted:
        entry = queue.get(now)
        if entry is None:
            break
        queue.forget(entry, is_used=False)  # its publisher is confirmed once the disk has the copy
        vhost.dead_letter(queue, entry.message, DELETED, now)
        if quantum.spend(LETTER):
            now = yield
    return now
