"""Frames that were seen before those that they answer, as in a capture, whose two directions have no common order.

A packet that was captured late, or was sent again, makes an acknowledgement come before its delivery, and a reply
before its request. Each direction is in order itself: an early frame holds up all later frames of its sender.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, NamedTuple, Protocol, TypeVar

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.budget import Budget

HELD_COST = 256
"""Memory charged for a held frame, in bytes, in addition to its size."""


class TracedFrame(Protocol):
    """A frame of any protocol."""

    @property
    def channel(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def raw(self) -> bytes: ...


F = TypeVar("F", bound=TracedFrame)


class HeldFrame(NamedTuple, Generic[F]):
    """A frame, the time of the read that it came with, and whether the proxy sent it."""

    frame: F
    ts_ns: int
    is_by_proxy: bool = False


class HeldFrames(ABC, Generic[F]):
    """Frames held back until those that they answer were seen; `count` is their number.

    If the next frames of both peers wait for each other's direction, one of them answers nothing: it is let through.
    """

    __slots__ = ("_budget", "_held", "count")

    def __init__(self, budget: Budget) -> None:
        self.count = 0
        self._budget = budget
        self._held: dict[Peer, deque[HeldFrame[F]]] = {CLIENT: deque(), SERVER: deque()}

    @abstractmethod
    def may_pass(self, sender: Peer, frame: F) -> bool:
        """Whether a frame just seen may pass at once."""

    @abstractmethod
    def next(self) -> tuple[Peer, HeldFrame[F]] | None:
        """Release and return the next frame that may pass; `None` if there is none."""

    def may_follow_loss(self, sender: Peer) -> bool:
        """Whether all held frames may be taken after missed frames of `sender`, before its frames that follow those.

        They are all of the other peer, and neither open nor close anything, nor refer to everything so far.
        """
        return not self._held[sender] and all(self._is_independent(each.frame) for each in self._held[sender.other])

    @abstractmethod
    def _is_independent(self, frame: F) -> bool:
        """Whether the effect of a frame does not depend on frames of the other peer, except those that it names."""

    def hold(self, sender: Peer, frame: F, ts_ns: int, is_by_proxy: bool = False) -> bool:
        """Hold a frame that was just seen; return `False` if the budget is exhausted."""
        if not self._budget.take(HELD_COST + frame.size):
            return False
        _ = frame.raw  # copies the frame, so that it does not keep the whole read in memory
        self._held[sender].append(HeldFrame(frame, ts_ns, is_by_proxy))
        self.count += 1
        return True

    def next_at_the_end(self) -> tuple[Peer, HeldFrame[F]] | None:
        """Like `next`, once nothing more will be seen: release even frames that still wait."""
        found = self.next()
        if found is None:
            for sender in (CLIENT, SERVER):
                if self._held[sender]:
                    return self._take(sender)
        return found

    def _take(self, sender: Peer) -> tuple[Peer, HeldFrame[F]]:
        held = self._held[sender].popleft()
        self.count -= 1
        self._budget.give(HELD_COST + held.frame.size)
        return sender, held
