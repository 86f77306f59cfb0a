"""Queues of a connection that its declares have shown to be of one kind."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk, QueueDelete
from amqproxy.rabbitmq.declared_queue import DeclaredQueue
from amqproxy.taps.findings.durable_queues import MAX_QUEUES
from amqproxy.taps.trace.events import RequestAnswered, RequestSent


class QueuesOf:
    """Set of the names of queues of one kind that are declared on a connection.

    It holds names alone, since the pipeline carries detectors from one run to the next.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str | None) -> bool:
        return name in self._names

    def note(self, event: RequestAnswered | RequestSent, belongs: Callable[[DeclaredQueue], bool]) -> None:
        """Take a successful declare, of a queue that `belongs` or not, or a delete; other requests change nothing."""
        request = event.request
        if isinstance(request, QueueDeclare):
            reply = event.reply if isinstance(event, RequestAnswered) else None
            name = reply.queue if isinstance(reply, QueueDeclareOk) else request.queue
            is_one = belongs(DeclaredQueue(request.durable, request.exclusive, request.arguments))
            if is_one and not request.passive and len(self._names) < MAX_QUEUES:
                self._names.add(name)
        elif isinstance(request, QueueDelete):
            self._names.discard(request.queue)
