"""Removal of the exclusive queues of a closed connection or session."""

from __future__ import annotations

from collections.abc import Callable, Generator

from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost

REMOVAL_COST = 16
"""Operations that the removal of a queue counts as."""

Emptying = Callable[[Queue, float], Generator[None, float, float]]


def removing(
    vhost: VirtualHost, queues: dict[Queue, None], client: str, now: float, emptying: Emptying
) -> Generator[None, float, float]:
    """Empty and delete an owner's exclusive queues in the order in which they were declared; in steps."""
    quantum = vhost.work.quantum
    ordered = list(reversed(queues))
    queues.clear()
    while ordered:
        queue = ordered.pop()  # one at a time, not all at the end: freeing a queue takes time
        with vhost.events.contained("an exclusive queue's end failed", client=client, queue=queue.name):
            now = yield from emptying(queue, now)
            vhost.remove_queue(queue)
        if quantum.spend(REMOVAL_COST):
            now = yield
    return now
