"""Publishes to a broker that has asked for a pause."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import BlockingEnded, BlockingStarted, MessagePublished, StateRestored

GRACE_NS = 1_000_000_000
"""Time in nanoseconds after connection.blocked in which a publish may have been in flight already."""


class PublishWhileBlocked(Detector):
    """A client continues to publish though the broker has blocked the connection."""

    kind = "publish-while-blocked"
    severity = Severity.WARNING
    why = "A broker low on memory or disk does not read them: they fill all buffers, and the client hangs."
    remedy = (
        "Stop publishing from connection.blocked to connection.unblocked; client libraries have callbacks for that."
    )

    _since: int | None = None

    @on(BlockingStarted)
    def _on_blocked(self, event: BlockingStarted) -> None:
        self._since = event.ts_ns

    @on(StateRestored)
    def _on_restored(self, event: StateRestored) -> None:
        self._since = event.blocked_since_ns

    @on(BlockingEnded)
    def _on_unblocked(self, event: BlockingEnded) -> None:
        self._since = None

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        if self._since is None or event.ts_ns - self._since < GRACE_NS:
            return None
        return f"a message is published {(event.ts_ns - self._since) / 1e9:.1f} s after connection.blocked"
