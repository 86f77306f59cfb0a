"""The conversation of both sides of a connection: `--follow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.filtering import filtered
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.leg_number import shown_number
from amqproxy.taps.message_text import duration
from amqproxy.taps.record import encoded, excerpt, json_mapping
from amqproxy.taps.text import RESET, clock, printable, value_text
from amqproxy.views.command_text import command_text
from amqproxy.views.passed_command import PassedCommand, PassedKind
from amqproxy.views.passed_commands import commands_of

USUAL_BODY = 256
"""Bytes of each body that are shown by default."""

DecodedBody: TypeAlias = Callable[[bytes, Mapping[str, Any]], Mapping[str, Any] | None]
"""Returns the `form` and the `value` of a complete body with these properties; `None` to show it as it is."""

_COLOURS = {"client": "\x1b[36m", "server": "\x1b[35m"}


class Dialogue:
    """Shows the commands of both sides turn by turn, with the first `body` bytes of each body."""

    def __init__(
        self,
        selection: Selection,
        wanted: Filter | None = None,
        *,
        body: int = USUAL_BODY,
        is_coloured: bool = False,
        decoded_body: DecodedBody = lambda body, properties: None,
    ) -> None:
        self._selection = selection
        self._wanted = wanted
        self._body = body
        self._is_coloured = is_coloured
        self._decoded_body = decoded_body

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen: Iterable[Decoded] = self._selection.connections(decoded)
        if self._wanted is not None:
            chosen = filtered(chosen, self._wanted)
        turn: tuple[int, str] | None = None
        last: dict[int, int] = {}
        for command in commands_of(chosen, body=self._body):
            stream, sender, is_end = command.stream, command.sender, command.kind is PassedKind.END
            last_ns = last.pop(stream, None) if is_end else last.get(stream)
            if not self._selection.shows(command.ts_ns, self._selection.channel if is_end else command.channel):
                continue
            if last_ns is None:
                if is_end:
                    continue  # nothing of the connection is shown
                yield f"connection #{shown_number(stream)}: {' → '.join(command.connection.split('-'))}"
            if is_end:
                reason = f": {printable(command.text)}" if command.text else ""
                yield f"connection #{shown_number(stream)} is over{reason}"
                turn = None
                continue
            if turn != (stream, sender):
                yield self._turn(command, last_ns)
            turn = (stream, sender)
            last[stream] = command.ts_ns
            yield from self._said(command)

    def finish(self) -> Iterator[str]:
        return iter(())

    def _turn(self, command: PassedCommand, last_ns: int | None) -> str:
        took = ""
        if last_ns is not None:
            seconds = (command.ts_ns - last_ns) / 1e9
            took = f"  {'+' if seconds >= 0 else '-'}{duration(abs(seconds))}"
        text = f"#{shown_number(command.stream):<3} {command.sender:<6}  {clock(command.ts_ns)}{took}"
        colour = _COLOURS.get(command.sender, "") if self._is_coloured else ""
        return f"{colour}{text}{RESET}" if colour else text

    def _said(self, command: PassedCommand) -> Iterator[str]:
        channel = "" if command.channel is None else f"ch {command.channel}"
        yield f"     {channel:<7} {command_text(command)}".rstrip()
        if command.body:
            for line in self._shown(command).splitlines():
                yield f"{'':13}│ {printable(line)}"
            if command.size is not None and command.size > len(command.body):
                yield f"{'':13}│ … {command.size - len(command.body)} bytes more"

    def _shown(self, command: PassedCommand) -> str:
        """Return the body as an addon reads it, or else as text or in base64."""
        if command.size == len(command.body):
            found = self._decoded_body(command.body, json_mapping(command.properties.present()))
            if found is not None:
                return f"{found['form']}: {msgspec.json.format(encoded(found['value'])).decode()}"
        shown = excerpt(command.body, self._body, command.size)
        return shown if isinstance(shown, str) else value_text(shown)
