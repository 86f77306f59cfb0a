"""Makes sessions wait for a tap that is to miss nothing."""

from __future__ import annotations

import trio


class TapBrake:
    """While it `holds` a session, that takes nothing more of what it has received. For one thread, that of the loop."""

    __slots__ = ("_holds_all", "_released", "_sessions", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        """Does it hold any session? This is quick to see."""
        self._holds_all = False
        self._sessions: set[int] = set()
        self._released: trio.Event | None = None

    def pull(self, session: int | None = None) -> None:
        """Let the session of this number wait from here on, or all sessions."""
        self.is_on = True
        if session is None:
            self._holds_all = True
        else:
            self._sessions.add(session)

    def holds(self, session: int) -> bool:
        """Is the session of this number to wait?"""
        return self.is_on and (self._holds_all or session in self._sessions)

    def release(self) -> None:
        """Let all of them go on."""
        self.is_on = self._holds_all = False
        self._sessions.clear()
        if self._released is not None:
            self._released.set()
            self._released = None

    async def wait(self, session: int) -> None:
        """Wait until a session may go on."""
        while self.holds(session):
            if self._released is None:
                self._released = trio.Event()
            await self._released.wait()
