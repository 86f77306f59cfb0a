"""Channels that the broker closed because of the client's requests."""

from __future__ import annotations

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.ack_timeout import is_ack_timeout
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import refusal_text
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.inequivalent_declare import DECLARES
from amqproxy.taps.trace.events import ChannelClosed


class FailedOperation(Detector):
    """The broker has closed a channel with an error."""

    kind = "channel-error"
    severity = Severity.ERROR
    why = "The channel's consumers end, and its unacknowledged deliveries are requeued."
    remedy = "Correct what the text names; passive declares that may fail belong on a channel of their own."

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        if event.by is not SERVER or event.code in (0, 200):
            return None
        if event.code == PreconditionFailed.code and event.method in DECLARES | {
            "basic.ack",
            "basic.nack",
            "basic.reject",
        }:
            return None  # other detectors report these
        if is_ack_timeout(event):
            return None
        return refusal_text(event)
