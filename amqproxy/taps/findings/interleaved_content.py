"""Frames that interrupt the content of a message on the same channel."""

from __future__ import annotations

from amqproxy.amqp091.errors import UnexpectedFrame
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.unread_content import is_unread_content
from amqproxy.taps.trace.events import ConnectionClosed, HistoryLost


class InterleavedContent(Detector):
    """The client has sent something else on a channel before a message was complete."""

    kind = "interleaved-content"
    severity = Severity.ERROR
    why = "A message is a method, a header and bodies, in this order: the broker closes the whole connection."
    remedy = "Give each thread a channel of its own, or hold a lock for each publish: channels are not thread-safe."

    _is_explained = False
    """Whether the broker was still reading an earlier content, which `UnreadContent` reports."""

    @on(HistoryLost)
    def _on_lost(self, event: HistoryLost) -> None:
        self._is_explained = self._is_explained or is_unread_content(event)

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        return f"{event.code} {event.text}" if is_interleaved(event) and not self._is_explained else None


def is_interleaved(event: ConnectionClosed) -> bool:
    """Whether the broker closed the connection for frames of a message that were not in order."""
    return event.by is SERVER and event.code == UnexpectedFrame.code
