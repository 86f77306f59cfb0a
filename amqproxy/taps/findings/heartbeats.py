"""Connections whose end may go unnoticed."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicConsume
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import MISSED_INTERVALS, silent_peer
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    ConnectionClosed,
    ConnectionOpened,
    MessagePublished,
    RequestAnswered,
    RequestSent,
    StateRestored,
)


class HeartbeatsOff(Detector):
    """Messages are consumed on a connection without heartbeats."""

    kind = "heartbeats-off"
    severity = Severity.WARNING
    why = "A peer that has vanished stays connected for hours: its consumers keep their messages."
    remedy = "Leave heartbeats on; 60 s is usual, 5 s the least that is safe."

    _is_off = False

    @on(ConnectionOpened, StateRestored)
    def _on_opened(self, event: ConnectionOpened | StateRestored) -> None:
        self._is_off = self.observed.trace.facts.heartbeat == 0

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        if not self._is_off or not isinstance(equivalent(event.request), BasicConsume):
            return None
        self._is_off = False  # reported once
        return "the heartbeat interval is 0: heartbeats are off"


class PublisherHeartbeatsOff(Detector):
    """Messages are published on a connection without heartbeats."""

    kind = "publisher-heartbeats-off"
    severity = Severity.INFO
    why = "Only the next publish shows that the connection was lost, perhaps much later; until then both sides keep it."
    remedy = "Leave heartbeats on, if the client library serves them between publishes (Celery's does not)."

    _is_off = False

    @on(ConnectionOpened, StateRestored)
    def _on_opened(self, event: ConnectionOpened | StateRestored) -> None:
        self._is_off = self.observed.trace.facts.heartbeat == 0

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        is_off, self._is_off = self._is_off, False
        return "the heartbeat interval is 0: heartbeats are off" if is_off else None


class MissedHeartbeats(Detector):
    """A connection was closed for missed heartbeats."""

    kind = "missed-heartbeats"
    severity = Severity.ERROR
    why = "A client whose event loop is blocked by its own work does not send them, and is disconnected."
    remedy = "Do long work in a thread, not in a callback of the client library."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        silent = silent_peer(event, self.observed.trace)
        if silent is None:
            return event.text if "heartbeat" in event.text.lower() else None
        interval = self.observed.trace.facts.heartbeat or 0
        return (
            f"the {silent.other} ended the connection after the {silent} had sent nothing for "
            f"{MISSED_INTERVALS * interval} s; heartbeats are due every {interval} s"
        )
