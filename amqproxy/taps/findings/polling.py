"""Queues that are polled with basic.get."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicGetEmpty
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import RequestAnswered

IN_A_ROW = 20
"""Number of empty answers that counts as polling."""


class GetPolling(Detector):
    """basic.get finds an empty queue again and again."""

    kind = "get-polling"
    severity = Severity.WARNING
    why = "Each basic.get is a round trip, also when there is nothing; messages wait for the next one."
    remedy = "Use basic.consume, with a prefetch."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._empty = 0

    @on(RequestAnswered)
    def _on_answered(self, event: RequestAnswered) -> str | None:
        if not isinstance(event.reply, BasicGetEmpty):
            return None
        self._empty += 1
        if self._empty % IN_A_ROW:
            return None
        queue = getattr(event.request, "queue", "")
        return f"basic.get has found queue {queue or 'declared last'} empty; {self._empty} empty answers so far"
