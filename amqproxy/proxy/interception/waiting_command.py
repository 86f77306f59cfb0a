"""A delayed or held command with its verdict."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.proxy.interception.queued_bytes import cost_of_changes
from amqproxy.proxy.timers import Timer
from amqproxy.rules.verdict import HoldAction, Verdict


class WaitingCommand:
    """A delayed or held command with its verdict and a `number`, from `since` until `until` (seconds) or its release.

    `original` is the command as rules have seen it, `received` the dialect's representation of it, which takes `size`
    bytes of memory.
    """

    __slots__ = ("cost", "hold", "number", "original", "received", "since", "timer", "until", "verdict")

    def __init__(self, original: Command, verdict: Verdict, size: int, received: Any = None) -> None:
        self.original = original
        self.verdict = verdict
        self.received = received
        self.hold: HoldAction | None = verdict.hold
        self.number = 0
        self.since = self.until = 0.0
        self.timer: Timer | None = None
        self.cost = size + cost_of_changes(original, verdict)

    def begin(self, number: int, now: float) -> None:
        """Start the wait: the delay, followed by the hold's timeout if the command is held."""
        self.number = number
        self.since = now
        self.until = now + self.verdict.delay + (self.hold.timeout if self.hold is not None else 0.0)
