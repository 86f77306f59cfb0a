"""Commands of a recorded channel that the live client has still to send."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Generic

from amqproxy.replay.mocking.server_script import C, Key, ScriptedCommand, shape_of_key

LOOK_AHEAD = 32
"""Commands with the same key that are searched for an equal one."""

MAX_NEAREST = 500
"""Commands that are searched for the nearest one to a command that the recording lacks."""


class WaitingCommands(Generic[C]):
    """Waiting commands of one channel, matched by key, or else by key without the generated parts of names."""

    def __init__(self, commands: list[ScriptedCommand[C]]) -> None:
        self._commands = commands
        self._taken: set[int] = set()
        self._by_key: dict[Key, deque[ScriptedCommand[C]]] = {}
        self._by_shape: dict[Key, deque[ScriptedCommand[C]]] | None = None
        self._used: dict[Key, ScriptedCommand[C]] = {}
        for each in commands:
            self._by_key.setdefault(each.key, deque()).append(each)

    def __iter__(self) -> Iterator[ScriptedCommand[C]]:
        """Iterate over the waiting commands in order."""
        return (each for each in self._commands if each.number not in self._taken)

    def take(self, key: Key, is_like: Callable[[C], bool], *, by_shape: bool = True) -> ScriptedCommand[C] | None:
        """Take and return the recorded command for a live one with this key; None if there is none.

        Among several with its key, the one that `is_like` it is preferred. Without any, `by_shape` allows one whose key
        differs in generated names only.
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

    def used(self, key: Key) -> ScriptedCommand[C] | None:
        """Return the recorded command that was taken last for a live one with this key."""
        return self._used.get(key)

    def _best(
        self, waiting: deque[ScriptedCommand[C]] | None, is_like: Callable[[C], bool]
    ) -> ScriptedCommand[C] | None:
        if not waiting:
            return None
        while waiting and waiting[0].number in self._taken:
            waiting.popleft()
        left = [each for each in islice(waiting, LOOK_AHEAD) if each.number not in self._taken]
        return next((each for each in left if is_like(each.command)), next(iter(left), None))


def nearest(waiting: Iterable[str], live: str) -> str | None:
    """Return the description of a waiting command that is most like that of a live one."""
    return next(iter(get_close_matches(live, islice(waiting, MAX_NEAREST), n=1, cutoff=0.5)), None)
