"""Queues that a connection has declared durable."""

from __future__ import annotations

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from amqproxy.taps.trace.events import Method

MAX_QUEUES = 10_000
"""Limit on the queues remembered for one connection; later ones are not known to be durable."""


class DurableQueues:
    """Set of the names of the queues that a connection has declared durable."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def note(self, declare: QueueDeclare, reply: Method | None) -> None:
        """Take a successful declaration; a passive one does not show whether the queue is durable."""
        name = reply.queue if isinstance(reply, QueueDeclareOk) else declare.queue
        if declare.durable and not declare.passive and not declare.exclusive and len(self._names) < MAX_QUEUES:
            self._names.add(name)
