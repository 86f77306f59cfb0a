"""Tasks of one session."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import trio


class SessionTasks:
    """Tasks in a session's nursery; tasks started before the nursery exists are queued until `begin`.

    Therefore, changes to a session that has just come back from a pump need not wait for the task that runs it.
    `cancel_scope` is the nursery's. Once they `have_ended`, the session is ending, and further tasks are discarded.
    """

    __slots__ = ("_nursery", "_returns", "_waiting", "cancel_scope")

    def __init__(self) -> None:
        self.cancel_scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._returns = False
        self._waiting: list[tuple[Callable[..., Awaitable[object]], tuple[Any, ...]]] = []

    def begin(self, nursery: trio.Nursery) -> None:
        """Attach the nursery and start the queued tasks."""
        before, self.cancel_scope = self.cancel_scope, nursery.cancel_scope
        self._nursery = nursery
        if before.deadline != math.inf:
            nursery.cancel_scope.deadline = before.deadline
        if before.cancel_called:
            nursery.cancel_scope.cancel()
        for function, arguments in self._waiting:
            nursery.start_soon(function, *arguments)
        self._waiting.clear()

    def note_return(self) -> None:
        """Note that the block of the nursery is over: with its last task, trio closes it."""
        self._returns = True

    @property
    def have_ended(self) -> bool:
        """Whether the nursery is closed, though the task that opened it may not have run again."""
        return self._returns and self._nursery is not None and not self._nursery.child_tasks

    def start_soon(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Start a task that calls an async function."""
        if self._nursery is None:
            self._waiting.append((function, arguments))
        elif not self.have_ended:
            self._nursery.start_soon(function, *arguments)

    @property
    def count(self) -> int:
        """Number of tasks, queued ones and relays included."""
        return len(self._waiting) + (0 if self._nursery is None else len(self._nursery.child_tasks))
