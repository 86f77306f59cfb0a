"""Channels that the broker has closed, and the client reopens without channel.close-ok."""

from __future__ import annotations

from amqproxy.amqp091.errors import ChannelError
from amqproxy.amqp091.methods import ChannelOpen
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, ObservedTrace, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed


class MissingCloseOk(Detector):
    """The client opens a channel that the broker has closed, without channel.close-ok before it."""

    kind = "missing-close-ok"
    severity = Severity.ERROR
    why = "Until close-ok the number is in use: the broker refuses a second channel.open, and ends the connection."
    remedy = "Answer each channel.close with channel.close-ok before the number is used again; fix the client library."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        numbers = unanswered_closes(event, self.observed.trace)
        if not numbers:
            return None
        channels = ", ".join(map(str, numbers))
        return f"channel.open on channel {channels} without channel.close-ok before: {event.code} {event.text}"


def unanswered_closes(event: ConnectionClosed, trace: ObservedTrace) -> list[int]:
    """Return the channels for which a connection is closed because the client has reopened them without close-ok.

    RabbitMQ ignores all other methods on such a channel: tests/behaviours/test_channels.py.
    """
    if event.by is not SERVER or event.code != ChannelError.code or event.method != ChannelOpen.name:
        return []
    return trace.reopened_channels
