"""Channels that are opened and left."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelOpened

MANY = 100
"""Open channels of one connection that are reported, and each ten times that."""


class LeakedChannels(Detector):
    """A connection has very many channels open."""

    kind = "leaked-channels"
    severity = Severity.WARNING
    why = "Each costs memory and two processes in the broker; at channel_max the connection is closed with 530."
    remedy = "Close channels in error paths, too, or keep one for each thread; look for an open in a loop."

    _reported = MANY

    @on(ChannelOpened)
    def _on_opened(self, event: ChannelOpened) -> str | None:
        count = len(self.observed.trace.channels)
        if count < self._reported:
            return None
        self._reported *= 10
        return f"{count} channels are open"
