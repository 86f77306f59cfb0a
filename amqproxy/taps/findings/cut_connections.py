"""Connections that ended without connection.close while messages were open."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import ended_by, is_reset, silent_peer
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed, DeliveriesSettled, PublishesSettled, Settlement


class CutConnection(Detector):
    """A connection has ended without connection.close while publishes or deliveries were open."""

    kind = "connection-cut"
    severity = Severity.WARNING
    why = "Nobody knows whether the broker has the open publishes; open deliveries are redelivered, processed or not."
    remedy = (
        "Close connections before a program ends; publish again what was not confirmed, and make consumers idempotent."
    )

    _at_ns = 0
    _publishes = 0
    _deliveries = 0

    @on(PublishesSettled, DeliveriesSettled)
    def _on_settled(self, event: PublishesSettled | DeliveriesSettled) -> None:
        """Count the messages open at the end of the connection; they are reported just before it."""
        if event.outcome is not Settlement.OPEN:
            return
        if event.ts_ns != self._at_ns:
            self._at_ns, self._publishes, self._deliveries = event.ts_ns, 0, 0
        count = sum(span.count for span in event.spans)
        if isinstance(event, PublishesSettled):
            self._publishes += count
        else:
            self._deliveries += count

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        ending = ended_by(event)
        if ending is None or event.ts_ns != self._at_ns or not (self._publishes or self._deliveries):
            return None
        if "heartbeat" in event.text.lower() or silent_peer(event, self.observed.trace) is not None:
            return None  # MissedHeartbeats reports these
        how = "reset" if is_reset(event) else "ended"
        return (
            f"the {ending} {how} the connection without connection.close, with {self._publishes} publishes "
            f"and {self._deliveries} deliveries open"
        )
