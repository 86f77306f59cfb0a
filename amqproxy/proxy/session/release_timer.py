"""Timer for a session's next delayed command, with a deadline that may be moved during the wait."""

from __future__ import annotations

import math

import trio


class ReleaseTimer:
    """A deadline that at most one task waits for; infinity while no command is delayed."""

    __slots__ = ("_deadline", "_scope")

    def __init__(self) -> None:
        self._deadline = math.inf
        self._scope: trio.CancelScope | None = None

    def move(self, deadline: float) -> bool:
        """Move the deadline, to infinity for none; return whether a task that calls `wait` must be started."""
        self._deadline = deadline
        if self._scope is not None:
            if deadline == math.inf:
                self._scope.cancel()  # the task ends, unless another deadline is set by then
            self._scope.deadline = deadline
            return False
        if deadline == math.inf:
            return False
        self._scope = trio.CancelScope()  # set before the task runs, so that no second one is started
        return True

    async def wait(self, deadline: float) -> bool:
        """Wait for the deadline, however it is moved; return false when there is none, so that the task must end."""
        self._deadline = deadline
        while self._deadline != math.inf:
            with trio.CancelScope(deadline=self._deadline) as self._scope:
                await trio.sleep_forever()
            if trio.current_time() >= self._deadline:
                return True
        self._scope = None
        return False
