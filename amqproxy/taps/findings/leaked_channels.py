"""Channels that are opened and never closed."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, ChannelOpened, StateRestored

MANY = 100
"""Number of open channels of one connection that is reported, as is each tenfold of it."""


class LeakedChannels(Detector):
    """A connection has very many channels open."""

    kind = "leaked-channels"
    severity = Severity.WARNING
    why = "Each costs memory and two processes in the broker; at channel_max the connection is closed with 530."
    remedy = "Close channels in error paths, too, or keep one for each thread; look for an open in a loop."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._open: set[int] = set()
        self._reported = MANY

    @on(ChannelOpened)
    def _on_opened(self, event: ChannelOpened) -> str | None:
        self._open.add(event.channel)
        count = len(self._open)
        if count < self._reported:
            return None
        self._reported *= 10
        return f"{count} channels are open"

    @on(StateRestored)
    def _on_restored(self, event: StateRestored) -> None:
        self._open = set(self.observed.trace.channels)

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._open.discard(event.channel)
