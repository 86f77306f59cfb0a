"""Declarations that differ from the existing object."""

from __future__ import annotations

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed

DECLARES = frozenset({"queue.declare", "exchange.declare"})


class InequivalentDeclare(Detector):
    """A queue or an exchange is declared with other arguments than it has."""

    kind = "inequivalent-declare"
    severity = Severity.ERROR
    why = "The broker closes the channel, and the program that declares it so does not start."
    remedy = "Declare it alike everywhere; to change it, delete it first, or set the difference by a policy."

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        if not is_refused_declare(event) or not is_inequivalent(event):
            return None
        return declare_refusal(event)


def is_refused_declare(event: ChannelClosed) -> bool:
    """Whether the broker closed the channel with 406 for a declare."""
    return event.code == PreconditionFailed.code and event.method in DECLARES


def is_inequivalent(event: ChannelClosed) -> bool:
    """Whether a refused declare differs from the existing object, by the prefix of RabbitMQ's or LavinMQ's text."""
    return declare_refusal(event).lower().startswith(("inequivalent ", "existing "))


def declare_refusal(event: ChannelClosed) -> str:
    """Return the broker's text about a refused declare, without the name of the code."""
    return event.text.removeprefix(f"{PreconditionFailed.name} - ")
