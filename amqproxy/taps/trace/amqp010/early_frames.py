"""0-10 frames seen before those that they answer."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.frame import CONTROL, Frame
from amqproxy.peer import Peer
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.held_frames import HeldFrame, HeldFrames


class EarlyFrames(HeldFrames[Frame]):
    """Frames held back while they are early; `is_early` returns whether a peer's next frame is.

    Of two frames that wait for each other's direction, the earlier one is let through.
    """

    __slots__ = ("_is_early",)

    def __init__(self, budget: Budget, is_early: Callable[[Peer, Frame], bool]) -> None:
        super().__init__(budget)
        self._is_early = is_early

    def may_pass(self, sender: Peer, frame: Frame) -> bool:
        return not self._held[sender] and not self._is_early(sender, frame)

    def next(self) -> tuple[Peer, HeldFrame[Frame]] | None:
        heads = [(peer, held[0]) for peer, held in self._held.items() if held]
        for peer, head in heads:
            if not self._is_early(peer, head.frame):
                return self._take(peer)
        if len(heads) == 2:
            return self._take(min(heads, key=lambda each: each[1].ts_ns)[0])
        return None

    def _is_independent(self, frame: Frame) -> bool:
        return frame.kind != CONTROL or frame.index == SessionCompleted.index
