"""A finding: requests that ask for a reply, and have no correlation_id by which the reply could be told apart.

Detectors get the events of the connection's trace, not frames. One is made for each connection; what it keeps must be
bounded, and must be picklable, since the pipeline carries it from one run to the next.
"""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessagePublished


class MissingCorrelationId(Detector):
    """A request is published without a correlation_id."""

    kind = "missing-correlation-id"
    severity = Severity.WARNING
    why = "The client cannot tell which of its requests a reply belongs to, once two are under way."
    remedy = "Set a correlation_id that is new for each request, and compare it with that of the reply."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._requests = 0

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        properties = event.properties
        if not properties.reply_to or properties.correlation_id:
            return None
        self._requests += 1
        key = event.method.routing_key
        return f"a request to {key or 'an exchange'} has a reply_to and no correlation_id; {self._requests} so far"
