"""What a live client has published in place of what the recorded one did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.properties import Properties
from amqproxy.replay.mocking.server_script import ScriptedCommand

MAX_KEPT = 64 << 20
"""Bytes of contents of one connection that are kept, as they differ from the recorded ones; the oldest goes first."""

CONTENT_COST = 1024
"""Bytes that a content is counted as, besides its body."""


class LiveContents:
    """Of one connection: when each recorded publish was sent live, and what was in it, if it was something else.

    A message that a recorded consumer got has what the live client published, where that is all it differs in.
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._contents: dict[int, tuple[Properties, bytes]] = {}
        self._size = 0
        self._waiting: dict[int, list[Callable[[float], None]]] = {}

    def add(self, scripted: ScriptedCommand, live: Command, now: float) -> None:
        """The live client has sent `live`, which stands for a recorded publish."""
        self._keep(scripted, live, now)
        for go_on in self._waiting.pop(scripted.number, ()):
            go_on(now)

    def wait(self, scripted: ScriptedCommand, go_on: Callable[[float], None]) -> None:
        """Call `go_on` with the time when the live client sends a recorded publish."""
        self._waiting.setdefault(scripted.number, []).append(go_on)

    def _keep(self, scripted: ScriptedCommand, live: Command, now: float) -> None:
        self._times.setdefault(scripted.number, now)
        recorded = scripted.command
        properties, body = live.properties, live.body
        if properties == recorded.properties and body == recorded.body:
            return
        old = self._contents.pop(scripted.number, None)
        if old is not None:
            self._size -= len(old[1]) + CONTENT_COST
        self._contents[scripted.number] = properties, body
        self._size += len(body) + CONTENT_COST
        while self._size > MAX_KEPT:
            _, forgotten = self._contents.pop(next(iter(self._contents)))
            self._size -= len(forgotten) + CONTENT_COST

    def when(self, scripted: ScriptedCommand) -> float | None:
        """When the live client has sent a recorded publish; None if it has not."""
        return self._times.get(scripted.number)

    def with_live_content(self, command: Command, source: ScriptedCommand) -> Command:
        """A recorded message that came from the recorded publish `source`, with what was published live instead."""
        live = self._contents.get(source.number)
        if live is None:
            return command
        properties, body = live
        published, delivered = source.command.properties, command.properties
        fields: dict[str, Any] = {}
        for name in Properties.__struct_fields__:
            value = getattr(delivered, name)
            fields[name] = getattr(properties, name) if value == getattr(published, name) else value
        is_same_body = command.body == source.command.body
        return Command(command.channel, command.method, Properties(**fields), body if is_same_body else command.body)
