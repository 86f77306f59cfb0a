"""Memory of queued frames and commands, charged to the session whose peer caused it."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.rules.verdict import Verdict

FRAME_COST = 256
"""Approximate overhead of a queued frame in bytes: without it, empty frames could be queued without bound."""


class QueuedBytes:
    """Bytes queued in a session because of one peer, as part of the session's memory `share`."""

    __slots__ = ("_share", "size")

    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self.size = 0

    def add(self, size: int) -> None:
        self.size += size
        self._share.add(size)

    def remove(self, size: int) -> None:
        self.size -= size
        self._share.remove(size)


def cost_of_own(command: Command) -> int:
    """Return the bytes charged for a command of the proxy, which was not received in frames."""
    return command.body_size + 4 * FRAME_COST


def cost_of_changes(original: Command, verdict: Verdict) -> int:
    """Return the bytes charged for the commands that a verdict has altered or inserts."""
    made = [insertion.command for insertion in verdict.insertions]
    made += [each for each in (verdict.command, verdict.shown) if each is not None and each is not original]
    return sum([cost_of_own(each) for each in made if not each.frames])
