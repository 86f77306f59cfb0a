"""What a live client has published in place of what the recorded one did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

MAX_KEPT = 64 << 20
"""Bytes of contents of one connection that are kept, as they differ from the recorded ones; the oldest goes first."""

CONTENT_COST = 1024
"""Bytes that a content is counted as, besides its body."""

Content = tuple[Any, bytes]
"""A message's properties, or its header, as the protocol has them, and its body."""


class ScriptedPublish(Protocol):
    """A recorded publish."""

    @property
    def number(self) -> int:
        """Its place among all that its client has done."""

    @property
    def command(self) -> Any:
        """The publish."""


class LiveContents:
    """Of one connection: when each recorded publish was sent live, and what was in it, if it was something else.

    A message that a recorded consumer got has what the live client published, where that is all it differs in.
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._contents: dict[int, Content] = {}
        self._size = 0
        self._waiting: dict[int, list[Callable[[float], None]]] = {}

    def add(self, scripted: ScriptedPublish, live: Content, recorded: Content, now: float) -> None:
        """Note that the live client has sent a recorded publish, with the contents of both."""
        self._keep(scripted.number, live, recorded)
        self.note(scripted, now)

    def note(self, scripted: ScriptedPublish, now: float) -> None:
        """The live client has sent what messages wait for: a publish, or what lets it go."""
        self._times.setdefault(scripted.number, now)
        for go_on in self._waiting.pop(scripted.number, ()):
            go_on(now)

    def wait(self, scripted: ScriptedPublish, go_on: Callable[[float], None]) -> None:
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

    def other_content(self, scripted: ScriptedPublish) -> Content | None:
        """What the live client has published in place of a recorded publish; None where it is the same."""
        return self._contents.get(scripted.number)

    def when(self, scripted: ScriptedPublish) -> float | None:
        """When the live client has sent a recorded publish; None if it has not."""
        return self._times.get(scripted.number)
