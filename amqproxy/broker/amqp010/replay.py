"""The commands that a session has sent and its client has not confirmed, to be sent again after a lost connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_SEGMENT, HEADER, LAST_SEGMENT, encode_segment

MOST_COMMANDS = 65_536
MOST_BYTES = 16 * 1024 * 1024
"""What is kept of one session, above which it is sent nothing more until its client confirms some."""


MOST_LOOKS = 4 * MOST_COMMANDS
"""Commands that are looked at for one confirmation: of ranges that make for more, the rest are ignored."""


class SentCommand(NamedTuple):
    """The segments of a command; a transfer has a header and a body."""

    command: bytes
    header: bytes | None = None
    body: bytes = b""

    def frames(self, channel: int, frame_max: int) -> bytes:
        """Its frames on a channel."""
        if self.header is None:
            return encode_segment(FIRST_SEGMENT | LAST_SEGMENT, COMMAND, channel, self.command, frame_max)
        head = encode_segment(FIRST_SEGMENT, COMMAND, channel, self.command, frame_max)
        head += encode_segment(0, HEADER, channel, self.header, frame_max)
        return head + encode_segment(LAST_SEGMENT, BODY, channel, self.body, frame_max)


class ReplayBuffer:
    """Commands by their positions, in their order."""

    def __init__(self) -> None:
        self._kept: dict[int, SentCommand] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        """Is there no room for a further command?"""
        return len(self._kept) >= MOST_COMMANDS or self._bytes >= MOST_BYTES

    def keep(self, position: int, command: SentCommand) -> None:
        """A command is sent."""
        self._kept[position] = command
        self._bytes += len(command.command) + len(command.header or b"") + len(command.body)

    def confirmed(self, positions: Iterable[range]) -> None:
        """The client has these."""
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
        """What the client expects, the last of its ranges being open to what it does not know of."""
        highest = max((each.stop for each in positions), default=0) - 1
        for position, command in list(self._kept.items()):
            if position >= highest or any(position in each for each in positions):
                yield position, command
