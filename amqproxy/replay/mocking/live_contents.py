"""Contents that a live client has published in place of the recorded ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.replay.mocking.server_script import ScriptedCommand

MAX_KEPT = 64 << 20
"""Bytes of one connection's differing contents that are kept; the oldest is dropped first."""

CONTENT_COST = 1024
"""Bytes that a content counts for in addition to its body."""

Content = tuple[Any, bytes]
"""A message's properties or header, in the protocol's type, and its body."""


class LiveContents:
    """Times and differing contents of one connection's live publishes, by the recorded ones they stand for.

    A delivery whose content is the recorded publish's gets the live one's instead.
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._contents: dict[int, Content] = {}
        self._size = 0
        self._waiting: dict[int, list[Callable[[float], None]]] = {}

    def add(self, scripted: ScriptedCommand[Any], live: Content, recorded: Content, now: float) -> None:
        """Note that the live client has sent a recorded publish, with the contents of both."""
        self._keep(scripted.number, live, recorded)
        self.note(scripted, now)

    def note(self, scripted: ScriptedCommand[Any], now: float) -> None:
        """Note that the live client has sent a command that messages wait for: a publish, a commit or a requeue."""
        self._times.setdefault(scripted.number, now)
        for go_on in self._waiting.pop(scripted.number, ()):
            go_on(now)

    def wait(self, scripted: ScriptedCommand[Any], go_on: Callable[[float], None]) -> None:
        """Call `go_on` with the time when the live client sends a recorded publish."""
        self._waiting.setdefault(scripted.number, []).append(go_on)

    def _keep(self, number: int, live: Content, recorded: Content) -> None:
        if live == recorded:
            return
        old = self._contents.pop(number, None)
        if old is not None:
            self._size -= len(old[1]) + CONTENT_COST
        self._contents[number] = live
        self._size += len(live[1]) + CONTENT_COST
        while self._size > MAX_KEPT:
            _, forgotten = self._contents.pop(next(iter(self._contents)))
            self._size -= len(forgotten) + CONTENT_COST

    def other_content(self, scripted: ScriptedCommand[Any]) -> Content | None:
        """Return the live content of a recorded publish; None if it is the same."""
        return self._contents.get(scripted.number)

    def when(self, scripted: ScriptedCommand[Any]) -> float | None:
        """Return the time when the live client sent a recorded command that messages wait for; None if it has not."""
        return self._times.get(scripted.number)
