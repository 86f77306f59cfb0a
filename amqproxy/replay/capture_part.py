"""A part of a capture: some of its connections, of their channels, and of their commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.replay.content_key import content_key
from amqproxy.replay.steps import BytesSent, SentStep, Step


class CapturePart(msgspec.Struct, frozen=True):
    """The remaining part of a capture: connections, channels, and client commands by the indices of their steps."""

    streams: frozenset[int]
    channels: frozenset[tuple[int, int]]
    commands: frozenset[int]


class CaptureInParts:
    """The steps of a capture, and their division into parts. A session counts as a channel."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._published: dict[int, bytes] = {}
        self._delivered: dict[int, bytes] = {}
        for step in steps:
            if not isinstance(step, SentStep):
                continue
            message = step.message
            if message is not None:
                keys = self._published if step.sender is CLIENT else self._delivered
                keys[step.index] = content_key(message)

    @property
    def whole(self) -> CapturePart:
        """The part that is the whole capture."""
        streams: dict[int, None] = {}
        channels: dict[tuple[int, int], None] = {}
        commands: list[int] = []
        for step in self._steps:
            streams[step.stream] = None
            if isinstance(step, SentStep) and step.sender is CLIENT:
                if step.is_on_channel:
                    channels[step.stream, step.channel] = None
                if not step.is_plumbing:
                    commands.append(step.index)
            elif isinstance(step, BytesSent) and step.sender is CLIENT:
                commands.append(step.index)
        return CapturePart(frozenset(streams), frozenset(channels), frozenset(commands))

    def channels_of(self, part: CapturePart) -> list[tuple[int, int]]:
        """Return the channels of a part, in order."""
        return sorted(each for each in part.channels if each[0] in part.streams)

    def commands_of(self, part: CapturePart) -> list[int]:
        """Return the client commands of a part, in order."""
        return [
            step.index
            for step in self._steps
            if step.index in part.commands and _has(part, step) and step.stream in part.streams
        ]

    def steps_of(self, part: CapturePart) -> Iterator[Step]:
        """Yield the steps of a part; other commands on its channels are only marked, as later ones may refer to them.

        Deliveries of messages whose publish is not in the part are left out.
        """
        kept = set(self.commands_of(part))
        keys = {self._published[index] for index in kept if index in self._published}
        gone = set(self._published.values()) - keys
        for step in self._steps:
            if step.stream not in part.streams or not _has(part, step):
                continue
            if isinstance(step, SentStep):
                if step.sender is CLIENT:
                    is_wanted = step.index in kept or step.is_plumbing
                    yield step if is_wanted else msgspec.structs.replace(step, is_wanted=False)
                    continue
                if self._delivered.get(step.index) in gone:
                    continue
            elif isinstance(step, BytesSent) and step.sender is CLIENT and step.index not in kept:
                continue
            yield step


def _has(part: CapturePart, step: Step) -> bool:
    """Whether a part contains the channel of a step."""
    if not isinstance(step, SentStep) or not step.is_on_channel:
        return True
    return (step.stream, step.channel) in part.channels
