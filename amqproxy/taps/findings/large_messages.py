"""Messages and headers that are too large for a broker to handle well."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessagePublished, encoded_headers

LARGE_BODY = 16 * 1024 * 1024
"""Largest body in bytes that is not reported; RabbitMQ 4 refuses larger ones by default."""

LARGE_HEADERS = 16 * 1024
"""Largest headers table in bytes that is not reported."""


class LargeMessage(Detector):
    """A message has a very large body."""

    kind = "large-message"
    severity = Severity.WARNING
    why = "It is copied at each step and holds up what follows on its connection; RabbitMQ 4 by default refuses it."
    remedy = "Put the payload into an object store, and publish its address."

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        return f"a message of {event.size} bytes is published" if (event.size or 0) > LARGE_BODY else None


class LargeHeaders(Detector):
    """A message has very large properties."""

    kind = "large-headers"
    severity = Severity.WARNING
    why = "Headers are decoded at every hop, and must fit into one frame; x-death grows with each dead-lettering."
    remedy = "Move data from headers into the body."

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        size = len(encoded_headers(event.properties))
        return f"a message has {size} bytes of headers" if size > LARGE_HEADERS else None
