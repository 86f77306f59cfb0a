"""Attempts that many clients wait for: each is made once, and its failure is that of all who wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

import trio

from amqproxy.process.exception_frames import release_frames

E = TypeVar("E", bound=Exception)

Start = Callable[[Callable[[], Awaitable[object]]], None]
"""Runs a task in the background."""


class Attempt:
    """An attempt that is being made, or its outcome once it is `over`."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self._result: Any = None
        self._failure: Exception | None = None

    @property
    def outcome(self) -> Any:
        """The result; raises the failure instead, if it has failed."""
        if self._failure is not None:
            raise duplicate(self._failure)
        return self._result

    async def run(self, make: Callable[[], Awaitable[Any]]) -> None:
        """Make the attempt, which is not over before its owner has noted that."""
        try:
            self._result = await make()
        except Exception as failure:  # noqa: BLE001 - it is raised where it is waited for
            self._failure = duplicate(failure)
            release_frames(failure)


class SharedAttempts:
    """The attempts that are being made, by key.

    Each runs in a task of its own, which `start` starts: a client that leaves ends the attempt for nobody else, and
    those that come meanwhile wait for no second one, however long a broker does not answer.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._running: dict[Hashable, Attempt] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def outcome(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of the attempt that runs for a key, else of a new one; raise its failure."""
        attempt = self.join(key, make)
        await attempt.over.wait()
        return attempt.outcome

    def join(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Attempt:
        """Return the attempt that runs for a key, else a new one."""
        attempt = self._running.get(key)
        if attempt is None:
            attempt = self._running[key] = Attempt()
            self._start(lambda: self._run(key, attempt, make))
        return attempt

    async def _run(self, key: Hashable, attempt: Attempt, make: Callable[[], Awaitable[Any]]) -> None:
        try:
            await attempt.run(make)
        finally:
            del self._running[key]
            attempt.over.set()


def duplicate(error: E) -> E:
    """Return an equal exception to be raised in another task: its traceback would grow with each."""
    found = type(error).__new__(type(error), *error.args)
    found.__dict__.update(error.__dict__)
    return found
