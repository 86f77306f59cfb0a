"""The commands of one session whose replies are waited for, and since when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from amqproxy.taps.trace.budget import Budget


class OpenRequests:
    """Positions are as in `amqp010.command_ids`. `room` is for the requests of all sessions of the connection: what
    goes beyond it is not measured.
    """

    __slots__ = ("_positions", "_requests", "_room")

    def __init__(self, room: Budget) -> None:
        self._positions: list[int] = []
        self._requests: dict[int, tuple[str, float]] = {}
        self._room = room

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, position: int, name: str, now: float) -> None:
        """Wait for the reply to a command, in place of one with the same position."""
        if position not in self._requests:
            if not self._room.take(1):
                return
            insort(self._positions, position)
        self._requests[position] = name, now

    def settle(self, first: int, last: int) -> list[tuple[str, float]]:
        """Those in a range, which are answered: the name of each, and when it was sent."""
        begin, end = bisect_left(self._positions, first), bisect_right(self._positions, last)
        if begin >= end:
            return []
        answered = [self._requests.pop(each) for each in self._positions[begin:end]]
        del self._positions[begin:end]
        self._room.give(len(answered))
        return answered

    def clear(self) -> None:
        """Their session is over."""
        self._room.give(len(self._positions))
        self._positions.clear()
        self._requests.clear()
