"""Commands that a session has sent and its client has not confirmed, to be sent again after a lost connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_SEGMENT, HEADER, LAST_SEGMENT, encode_segment

MOST_COMMANDS = 65_536
MOST_BYTES = 16 * 1024 * 1024
"""Limits on the commands kept of one session; beyond them, it is sent nothing more until its client confirms some."""


MOST_LOOKS = 4 * MOST_COMMANDS
"""Maximum number of commands looked at for one confirmation; the ranges that exceed it are ignored."""


class SentCommand(NamedTuple):
    """The segments of a command; a transfer has a header and a body."""

    command: bytes
    header: bytes | None = None
    body: bytes = b""

    def frames(self, channel: int, frame_max: int) -> bytes:
        """Encode the command as frames on a channel."""
        if self.header is None:
            return encode_segment(FIRST_SEGMENT | LAST_SEGMENT, COMMAND, channel, self.command, frame_max)
        head = encode_segment(FIRST_SEGMENT, COMMAND, channel, self.command, frame_max)
        head += encode_segment(0, HEADER, channel, self.header, frame_max)
        return head + encode_segment(LAST_SEGMENT, BODY, channel, self.body, frame_max)


class ReplayBuffer:
    """Kept commands by position, in their order."""

    def __init__(self) -> None:
        self._kept: dict[int, SentCommand] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Size of the kept commands in bytes."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        """Whether the buffer has reached one of its limits."""
        return len(self._kept) >= MOST_COMMANDS or self._bytes >= MOST_BYTES

    def keep(self, position: int, command: SentCommand) -> None:
        """Keep a command that is sent."""
        self._kept[position] = command
        self._bytes += len(command.command) + len(command.header or b"") + len(command.body)

    def confirmed(self, positions: Iterable[range]) -> None:
        """Drop the commands that the client has confirmed."""
        kept = self._kept
        budget = MOST_LOOKS
        for each in positions:
            is_small = len(each) <= len(kept)
            budget -= len(each) if is_small else len(kept)
            if budget < 0:
                break
            for position in each if is_small else [one for one in kept if one in each]:
                command = kept.pop(position, None)
                if command is not None:
                    self._bytes -= len(command.command) + len(command.header or b"") + len(command.body)

    def expected(self, positions: list[range]) -> Iterator[tuple[int, SentCommand]]:
        """Yield the commands that the client expects.

        The last of its ranges is open-ended, for commands that it does not know of.
        """
        highest = max((each.stop for each in positions), default=0) - 1
        for position, command in list(self._kept.items()):
            if position >= highest or any(position in each for each in positions):
                yield position, command
