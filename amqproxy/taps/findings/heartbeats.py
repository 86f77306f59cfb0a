"""Connections whose end may go unnoticed."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed, ConnectionOpened


class HeartbeatsOff(Detector):
    """Client and broker have agreed on no heartbeats."""

    kind = "heartbeats-off"
    severity = Severity.WARNING
    why = "A peer that is gone without a word stays connected for hours: its consumers keep their messages."
    remedy = "Leave heartbeats on; 60 s is RabbitMQ's default, 5 s the least that is safe."

    @on(ConnectionOpened)
    def _on_opened(self, event: ConnectionOpened) -> str | None:
        return "the heartbeat interval is 0: heartbeats are off" if event.heartbeat == 0 else None


class MissedHeartbeats(Detector):
    """A connection was closed for missed heartbeats."""

    kind = "missed-heartbeats"
    severity = Severity.ERROR
    why = "A client whose event loop is blocked by its own work does not send them, and is disconnected."
    remedy = "Do long work in a thread, not in a callback of the client library."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        return event.text if "heartbeat" in event.text.lower() else None
