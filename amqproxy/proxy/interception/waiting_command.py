"""A command that waits with its verdict, for its time or for an operator."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.proxy.interception.queued_bytes import cost_of_changes
from amqproxy.proxy.timers import Timer
from amqproxy.rules.verdict import HoldAction, Verdict


class WaitingCommand:
    """A command with its verdict: it waits under a `number`, from `since` until `until` (seconds), or to its release.

    `original` is the command as rules have seen it, `received` what the dialect has received of it, which takes `size`
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
        """Begin to wait: first for the delay, then for an operator, if it is to be held."""
        self.number = number
        self.since = now
        self.until = now + self.verdict.delay + (self.hold.timeout if self.hold is not None else 0.0)
