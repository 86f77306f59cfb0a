"""Commands of one session that await their replies, with the times at which they were sent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from amqproxy.amqp010.methods import Method
from amqproxy.taps.trace.budget import Budget


class ObservedRequest(Protocol):
    """A command that an observer waits for, too: `complete` if the broker has carried it out, else `drop`."""

    def complete(self) -> None: ...

    def drop(self) -> None: ...


class RequestObserver(Protocol):
    """Observer of the requests of a client's commands, of `size` bytes each, and of the ends of sessions."""

    def ask(self, channel: int, command: Method, size: int) -> ObservedRequest | None: ...

    def end_session(self, channel: int) -> None: ...


MAX_PAYLOAD = 512
"""Largest payload of a request that is kept, in bytes."""


class OpenRequest(NamedTuple):
    """A command by its `name`, and the time at which it was sent, in seconds; its `payload`, b"" if it is too large."""

    name: str
    asked: float
    observed: ObservedRequest | None
    payload: bytes = b""


class OpenRequests:
    """Unanswered requests by position, as in `amqp010.command_ids`.

    `room` is for the requests of all sessions of the connection: those beyond it are not measured.
    """

    __slots__ = ("_positions", "_requests", "_room")

    def __init__(self, room: Budget) -> None:
        self._positions: list[int] = []
        self._requests: dict[int, OpenRequest] = {}
        self._room = room

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[tuple[int, OpenRequest]]:
        return ((position, self._requests[position]) for position in self._positions)

    def add(
        self, position: int, name: str, now: float, observed: ObservedRequest | None = None, payload: bytes = b""
    ) -> None:
        """Await the reply to a command, which replaces one with the same position."""
        former = self._requests.get(position)
        if former is None:
            if not self._room.take(1):
                _drop(observed)
                return
            insort(self._positions, position)
        else:
            _drop(former.observed)
        self._requests[position] = OpenRequest(name, now, observed, payload if len(payload) <= MAX_PAYLOAD else b"")

    def settle(self, first: int, last: int) -> list[OpenRequest]:
        """Remove and return the requests in a range, which are answered."""
        begin, end = bisect_left(self._positions, first), bisect_right(self._positions, last)
        if begin >= end:
            return []
        answered = [self._requests.pop(each) for each in self._positions[begin:end]]
        del self._positions[begin:end]
        self._room.give(len(answered))
        return answered

    def refuse(self, position: int) -> None:
        """Remove the command at a position, which has failed."""
        for request in self.settle(position, position):
            _drop(request.observed)

    def clear(self) -> None:
        """Drop all requests, since the session has ended."""
        for request in self._requests.values():
            _drop(request.observed)
        self._room.give(len(self._positions))
        self._positions.clear()
        self._requests.clear()


def complete(answered: list[OpenRequest]) -> None:
    """Tell the observer of answered requests; if it fails, drop the rest, so that it holds nothing of them."""
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
