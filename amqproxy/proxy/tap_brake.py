"""Brake that makes sessions wait for a tap that must not miss frames."""

from __future__ import annotations

import trio


class TapBrake:
    """Sessions on hold, which process nothing more that they have received. To be used only in the loop's thread."""

    __slots__ = ("_holds_all", "_released", "_sessions", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        """Whether any session is on hold; cheaper than `holds`."""
        self._holds_all = False
        self._sessions: set[int] = set()
        self._released: trio.Event | None = None

    def pull(self, session: int | None = None) -> None:
        """Put the session of this number on hold, or all sessions."""
        self.is_on = True
        if session is None:
            self._holds_all = True
        else:
            self._sessions.add(session)

    def holds(self, session: int) -> bool:
        """Whether the session of this number is on hold."""
        return self.is_on and (self._holds_all or session in self._sessions)

    def release(self) -> None:
        """Release all sessions."""
        self.is_on = self._holds_all = False
        self._sessions.clear()
        if self._released is not None:
            self._released.set()
            self._released = None

    async def wait(self, session: int) -> None:
        """Wait until the session is not on hold."""
        while self.holds(session):
            if self._released is None:
                self._released = trio.Event()
            await self._released.wait()
