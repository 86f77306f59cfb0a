"""The commands of one session whose replies are waited for, and since when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple, Protocol

from amqproxy.amqp010.methods import Method
from amqproxy.taps.trace.budget import Budget


class ObservedRequest(Protocol):
    """A command that an observer waits for, too: the broker has carried it out, or will not."""

    def complete(self) -> None: ...

    def drop(self) -> None: ...


class RequestObserver(Protocol):
    """Is shown what a client asks for with a command of `size` bytes, and that the session on a channel has ended."""

    def ask(self, channel: int, command: Method, size: int) -> ObservedRequest | None: ...

    def end_session(self, channel: int) -> None: ...


class OpenRequest(NamedTuple):
    """A command by its `name`, and when it was sent."""

    name: str
    asked: float
    observed: ObservedRequest | None


class OpenRequests:
    """Positions are as in `amqp010.command_ids`. `room` is for the requests of all sessions of the connection: what
    goes beyond it is not measured.
    """

    __slots__ = ("_positions", "_requests", "_room")

    def __init__(self, room: Budget) -> None:
        self._positions: list[int] = []
        self._requests: dict[int, OpenRequest] = {}
        self._room = room

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, position: int, name: str, now: float, observed: ObservedRequest | None = None) -> None:
        """Wait for the reply to a command, in place of one with the same position."""
        former = self._requests.get(position)
        if former is None:
            if not self._room.take(1):
                _drop(observed)
                return
            insort(self._positions, position)
        else:
            _drop(former.observed)
        self._requests[position] = OpenRequest(name, now, observed)

    def settle(self, first: int, last: int) -> list[OpenRequest]:
        """Those in a range, which are answered."""
        begin, end = bisect_left(self._positions, first), bisect_right(self._positions, last)
        if begin >= end:
            return []
        answered = [self._requests.pop(each) for each in self._positions[begin:end]]
        del self._positions[begin:end]
        self._room.give(len(answered))
        return answered

    def refuse(self, position: int) -> None:
        """The command at a position has failed."""
        for request in self.settle(position, position):
            _drop(request.observed)

    def clear(self) -> None:
        """Their session is over."""
        for request in self._requests.values():
            _drop(request.observed)
        self._room.give(len(self._positions))
        self._positions.clear()
        self._requests.clear()


def complete(answered: list[OpenRequest]) -> None:
    """Have the observer know of those that are answered; where it fails, it keeps nothing of the rest."""
    left = iter(answered)
    try:
        for request in left:
            if request.observed is not None:
                request.observed.complete()
    finally:
        for request in left:
            _drop(request.observed)


def _drop(observed: ObservedRequest | None) -> None:
    if observed is not None:
        observed.drop()
