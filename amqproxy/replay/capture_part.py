"""A part of a capture: some of its connections, of their channels, and of their commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from amqproxy.amqp010.errors import ProtocolError as Amqp010ProtocolError
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.conversion.command_view import command_view
from amqproxy.replay.content_key import content_key
from amqproxy.replay.step_selection import is_plumbing
from amqproxy.replay.steps import AssemblySent, BytesSent, CommandSent, Step

_MESSAGES = frozenset({"basic.publish", "basic.deliver", "basic.get-ok"})


class CapturePart(msgspec.Struct, frozen=True):
    """What is left of a capture: its connections, its channels, and its clients' commands, by the indices of steps."""

    streams: frozenset[int]
    channels: frozenset[tuple[int, int]]
    commands: frozenset[int]


class CaptureInParts:
    """The steps of a capture, and what they can be divided into. A session of 0-10 is a channel."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._published: dict[int, bytes] = {}
        self._delivered: dict[int, bytes] = {}
        for step in steps:
            if not isinstance(step, CommandSent | AssemblySent):
                continue
            message = _message(step)
            if message is not None:
                keys = self._published if step.sender is CLIENT else self._delivered
                keys[step.index] = content_key(message)

    @property
    def whole(self) -> CapturePart:
        """All of it."""
        streams: dict[int, None] = {}
        channels: dict[tuple[int, int], None] = {}
        commands: list[int] = []
        for step in self._steps:
            streams[step.stream] = None
            if isinstance(step, CommandSent | AssemblySent) and step.sender is CLIENT:
                if _is_on_channel(step):
                    channels[step.stream, step.channel] = None
                if not is_plumbing(step):
                    commands.append(step.index)
            elif isinstance(step, BytesSent) and step.sender is CLIENT:
                commands.append(step.index)
        return CapturePart(frozenset(streams), frozenset(channels), frozenset(commands))

    def channels_of(self, part: CapturePart) -> list[tuple[int, int]]:
        """The channels that are left, in order."""
        return sorted(each for each in part.channels if each[0] in part.streams)

    def commands_of(self, part: CapturePart) -> list[int]:
        """The commands that are left, in order."""
        return [
            step.index
            for step in self._steps
            if step.index in part.commands and _has(part, step) and step.stream in part.streams
        ]

    def steps_of(self, part: CapturePart) -> Iterator[Step]:
        """The steps that are left; commands that are not are marked, since what follows may refer to them.

        Deliveries of messages that are not published any more are left out.
        """
        kept = set(self.commands_of(part))
        keys = {self._published[index] for index in kept if index in self._published}
        gone = set(self._published.values()) - keys
        for step in self._steps:
            if step.stream not in part.streams or not _has(part, step):
                continue
            if isinstance(step, CommandSent | AssemblySent):
                if step.sender is CLIENT:
                    is_wanted = step.index in kept or is_plumbing(step)
                    yield step if is_wanted else msgspec.structs.replace(step, is_wanted=False)
                    continue
                if self._delivered.get(step.index) in gone:
                    continue
            elif isinstance(step, BytesSent) and step.sender is CLIENT and step.index not in kept:
                continue
            yield step


def _has(part: CapturePart, step: Step) -> bool:
    """Is the channel of a step left?"""
    if not isinstance(step, CommandSent | AssemblySent) or not _is_on_channel(step):
        return True
    return (step.stream, step.channel) in part.channels


def _is_on_channel(step: CommandSent | AssemblySent) -> bool:
    """Is it of a channel, and not of the whole connection? Sessions of 0-10 may be on channel 0."""
    if isinstance(step, AssemblySent):
        return not str(step.assembly.method.name).startswith("connection.")
    return step.channel != 0


def _message(step: CommandSent | AssemblySent) -> Command | None:
    """The message that is published or delivered, as 0-9-1 has it; None if there is none, or it is malformed."""
    with suppress(ProtocolError, Amqp010ProtocolError):
        if isinstance(step, AssemblySent):
            return command_view(step.sender, step.assembly) if step.assembly.method.carries_content else None
        if step.command.method.name in _MESSAGES and step.command.header is not None:
            return step.command
    return None
