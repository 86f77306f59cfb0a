"""Frames seen before those that they answer, as in a capture, whose two directions have no common order.

Each direction is in order itself: an early frame holds up all later frames of its sender. If the next frames of both
peers wait for each other's direction, one of them answers nothing: the earlier one is let through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from amqproxy.amqp010.frame import Frame
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.budget import Budget

HELD_COST = 256
"""Memory charged for a held frame, in bytes, in addition to its size."""


class HeldAmqp010Frame(NamedTuple):
    """A frame, the time of the read that it came with, and whether the proxy sent it."""

    frame: Frame
    ts_ns: int
    is_by_proxy: bool = False


class HeldFrames:
    """Frames held back while they are early; `is_early` returns whether a peer's next frame is."""

    __slots__ = ("_budget", "_held", "_is_early")

    def __init__(self, budget: Budget, is_early: Callable[[Peer, Frame], bool]) -> None:
        self._budget = budget
        self._is_early = is_early
        self._held: dict[Peer, deque[HeldAmqp010Frame]] = {CLIENT: deque(), SERVER: deque()}

    @property
    def count(self) -> int:
        """Number of held frames."""
        return len(self._held[CLIENT]) + len(self._held[SERVER])

    def may_pass(self, sender: Peer, frame: Frame) -> bool:
        """Whether a frame just seen may pass at once."""
        return not self._held[sender] and not self._is_early(sender, frame)

    def hold(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool = False) -> bool:
        """Hold a frame that was just seen; return `False` if the budget is exhausted."""
        if not self._budget.take(HELD_COST + frame.size):
            return False
        _ = frame.raw  # copies the frame, so that it does not keep the whole read in memory
        self._held[sender].append(HeldAmqp010Frame(frame, ts_ns, is_by_proxy))
        return True

    def next(self) -> tuple[Peer, HeldAmqp010Frame] | None:
        """Release and return the next frame that may pass; `None` if there is none."""
        heads = [(peer, held[0]) for peer, held in self._held.items() if held]
        for peer, head in heads:
            if not self._is_early(peer, head.frame):
                return self._take(peer)
        if len(heads) == 2:
            return self._take(min(heads, key=lambda each: each[1].ts_ns)[0])
        return None

    def next_at_the_end(self) -> tuple[Peer, HeldAmqp010Frame] | None:
        """Like `next`, once nothing more will be seen: release even frames that still wait."""
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
