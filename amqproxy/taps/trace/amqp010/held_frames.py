"""Frames of a capture that were seen before what they answer, whose two directions have no common order.

Each direction is in order itself: a frame that is early holds up all that its sender sent after it. Two frames each of
which waits for the other's direction show that one of them answers nothing: the earlier one is let through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from amqproxy.amqp010.frame import Frame
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.budget import Budget

HELD_COST = 256
"""Bytes that a frame which is held is counted as, besides its size."""


class HeldAmqp010Frame(NamedTuple):
    """A frame, the time of the read that it came with, and whether the proxy sent it."""

    frame: Frame
    ts_ns: int
    is_by_proxy: bool = False


class HeldFrames:
    """Holds frames back while they are early; `is_early` says it of the next frame of a peer."""

    __slots__ = ("_budget", "_held", "_is_early")

    def __init__(self, budget: Budget, is_early: Callable[[Peer, Frame], bool]) -> None:
        self._budget = budget
        self._is_early = is_early
        self._held: dict[Peer, deque[HeldAmqp010Frame]] = {CLIENT: deque(), SERVER: deque()}

    @property
    def count(self) -> int:
        """How many are held."""
        return len(self._held[CLIENT]) + len(self._held[SERVER])

    def may_pass(self, sender: Peer, frame: Frame) -> bool:
        """May a frame that was just seen pass at once?"""
        return not self._held[sender] and not self._is_early(sender, frame)

    def hold(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool = False) -> bool:
        """Hold a frame that was just seen; False if there is no room."""
        if not self._budget.take(HELD_COST + frame.size):
            return False
        _ = frame.raw  # of its own, not a part of the read that it came with
        self._held[sender].append(HeldAmqp010Frame(frame, ts_ns, is_by_proxy))
        return True

    def next(self) -> tuple[Peer, HeldAmqp010Frame] | None:
        """Take the next frame that may pass."""
        heads = [(peer, held[0]) for peer, held in self._held.items() if held]
        for peer, head in heads:
            if not self._is_early(peer, head.frame):
                return self._take(peer)
        if len(heads) == 2:
            return self._take(min(heads, key=lambda each: each[1].ts_ns)[0])
        return None

    def next_at_the_end(self) -> tuple[Peer, HeldAmqp010Frame] | None:
        """The same, when nothing more will be seen: what still waits is let through."""
        found = self.next()
        if found is None:
            for peer in (CLIENT, SERVER):
                if self._held[peer]:
                    return self._take(peer)
        return found

    def _take(self, sender: Peer) -> tuple[Peer, HeldAmqp010Frame]:
        held = self._held[sender].popleft()
        self._budget.give(HELD_COST + held.frame.size)
        return sender, held
