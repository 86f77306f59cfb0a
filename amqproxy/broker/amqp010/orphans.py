"""What is left in a queue that is to go: section 10.6 has it sent to the queue's alternate exchange."""

from __future__ import annotations

from collections.abc import Generator

from amqproxy.broker.queues.queue import DELETED, Queue
from amqproxy.broker.vhost import VirtualHost

LETTER = 8
"""What it costs of a turn to let a message go."""


def orphaning(vhost: VirtualHost, queue: Queue, now: float) -> Generator[None, float, float]:
    """Send what a queue has to its alternate exchange, if it has one; in steps."""
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
