"""Content of a client that RabbitMQ reads and never processes."""

from __future__ import annotations

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.amqp091.channel_trace import BODY_TOO_LONG, FROM_CLIENT
from amqproxy.taps.trace.events import HistoryLost


class UnreadContent(Detector):
    """The client sends a body that is longer than announced, or a method with content that only a broker sends."""

    kind = "unread-content"
    severity = Severity.ERROR
    why = (
        "RabbitMQ takes what follows on the channel for the rest of that content, in silence: the message is lost, and "
        "the connection closed at the end of it (503) or with the next method (505)."
    )
    remedy = "Fix the client library: body_size in the content header is the number of bytes of the body."

    @on(HistoryLost)
    def _on_lost(self, event: HistoryLost) -> str | None:
        return event.reason if is_unread_content(event) else None


def is_unread_content(event: HistoryLost) -> bool:
    """Whether the client has begun a content that the broker reads but does not process."""
    return event.sender is CLIENT and (event.reason.startswith(BODY_TOO_LONG) or event.reason.endswith(FROM_CLIENT))
