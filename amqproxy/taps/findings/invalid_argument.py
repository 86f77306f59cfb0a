"""Declarations whose arguments the broker does not accept."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.inequivalent_declare import declare_refusal, is_inequivalent, is_refused_declare
from amqproxy.taps.trace.events import ChannelClosed


class InvalidArgument(Detector):
    """A queue or an exchange is declared with an argument or a property that the broker does not accept."""

    kind = "invalid-argument"
    severity = Severity.ERROR
    why = "The broker closes the channel, and nothing is declared."
    remedy = "Correct the argument that the text names: its value, its type, or the queue type that does not have it."

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        if not is_refused_declare(event) or is_inequivalent(event):
            return None
        return declare_refusal(event)
