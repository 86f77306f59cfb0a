"""When the next of a session's delayed commands goes on: a deadline that may be moved while it is waited for."""

from __future__ import annotations

import math

import trio


class ReleaseTimer:
    """Lets one task at most wait for the deadline; there is none while nothing waits."""

    __slots__ = ("_deadline", "_scope")

    def __init__(self) -> None:
        self._deadline = math.inf
        self._scope: trio.CancelScope | None = None

    def move(self, deadline: float) -> bool:
        """The deadline is another, infinity for none; True when a task is to be started that calls `wait`."""
        self._deadline = deadline
        if self._scope is not None:
            if deadline == math.inf:
                self._scope.cancel()  # the task ends, unless there is another deadline by then
            self._scope.deadline = deadline
            return False
        if deadline == math.inf:
            return False
        self._scope = trio.CancelScope()  # until the task runs, so that there is but one
        return True

    async def wait(self, deadline: float) -> bool:
        """Wait for the deadline, or for what it is moved to meanwhile; False when there is none, and the task ends."""
        self._deadline = deadline
        while self._deadline != math.inf:
            with trio.CancelScope(deadline=self._deadline) as self._scope:
                await trio.sleep_forever()
            if trio.current_time() >= self._deadline:
                return True
        self._scope = None
        return False
