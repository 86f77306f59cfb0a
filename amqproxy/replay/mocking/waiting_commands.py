"""The commands of a recorded channel that the live client has not sent yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Generic, Protocol, TypeVar

from amqproxy.replay.mocking.command_key import Key, shape_of_key

LOOK_AHEAD = 32
"""Commands with the same key among which the one is looked for that is the same to the last byte."""

MAX_NEAREST = 500
"""Commands among which the nearest is looked for, where a client sends what is not in the recording."""


class Scripted(Protocol):
    """A command of the recorded client."""

    @property
    def number(self) -> int:
        """Its place among all of them."""

    @property
    def key(self) -> Key:
        """What it is known by."""


S = TypeVar("S", bound=Scripted)


class WaitingCommands(Generic[S]):
    """Those of one channel, found by their keys; where no names are the same, by the shape of generated ones."""

    def __init__(self, commands: list[S]) -> None:
        self._commands = commands
        self._taken: set[int] = set()
        self._by_key: dict[Key, deque[S]] = {}
        self._by_shape: dict[Key, deque[S]] | None = None
        self._used: dict[Key, S] = {}
        for each in commands:
            self._by_key.setdefault(each.key, deque()).append(each)

    def __iter__(self) -> Iterator[S]:
        """What still waits, in its order."""
        return (each for each in self._commands if each.number not in self._taken)

    def take(self, key: Key, is_like: Callable[[S], bool], *, by_shape: bool = True) -> S | None:
        """The recorded command that a live one with recorded names is; it does not wait any more.

        Of several with its key, the one that it `is_like`; of those without, `by_shape` if so.
        """
        found = self._best(self._by_key.get(key), is_like)
        if found is None and by_shape:
            if self._by_shape is None:
                self._by_shape = {}
                for each in self:
                    self._by_shape.setdefault(shape_of_key(each.key), deque()).append(each)
            found = self._best(self._by_shape.get(shape_of_key(key)), is_like)
        if found is not None:
            self._taken.add(found.number)
            self._used[key] = found
        return found

    def used(self, key: Key) -> S | None:
        """The recorded command that the last live one with the same key was."""
        return self._used.get(key)

    def _best(self, waiting: deque[S] | None, is_like: Callable[[S], bool]) -> S | None:
        if not waiting:
            return None
        while waiting and waiting[0].number in self._taken:
            waiting.popleft()
        left = [each for each in islice(waiting, LOOK_AHEAD) if each.number not in self._taken]
        return next((each for each in left if is_like(each)), next(iter(left), None))


def nearest(waiting: Iterable[str], live: str) -> str | None:
    """The waiting command that is most like a live one, both in words."""
    return next(iter(get_close_matches(live, islice(waiting, MAX_NEAREST), n=1, cutoff=0.5)), None)
