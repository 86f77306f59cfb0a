"""The positions of the commands that one peer sends on a session."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.command_ids import position_of
from amqproxy.amqp010.sequence import SequenceSet


class CommandNumbers:
    """Numbers commands from session.command-point on.

    `first` and `next` are the positions of the first command of the attachment and of the one that comes next, None
    while they are not known; `begun` is that of the command of which not all has come yet.
    """

    __slots__ = ("begun", "first", "next")

    def __init__(self) -> None:
        self.first: int | None = None
        self.next: int | None = None
        self.begun: int | None = None

    def point(self, command_id: int) -> None:
        """The peer says which command comes next."""
        self.next = command_id if self.next is None else position_of(command_id, self.next)
        self.begun = None
        if self.first is None:
            self.first = self.next

    def begin(self) -> int | None:
        """The peer begins a command: its position."""
        self.begun = position = self.next
        if position is not None:
            self.next = position + 1
        return position

    def finish(self) -> None:
        """All of the command has come."""
        self.begun = None

    def position(self, command_id: int) -> int | None:
        """The position that is meant by an id."""
        return None if self.next is None else position_of(command_id, self.next)

    def ranges(self, commands: SequenceSet | None) -> Iterator[range]:
        """The positions that a set means, without what makes no sense; nothing while they are not known."""
        if self.next is None or commands is None:
            return
        for first, last in commands.ranges:
            start = position_of(first, self.next)
            stop = position_of(last, start) + 1
            if start < stop:
                yield range(start, stop)

    def has_sent(self, position: int) -> bool:
        """Has all of this command come, or was it sent before what was seen?"""
        return self.next is None or position < (self.next if self.begun is None else self.begun)

    def is_before(self, position: int) -> bool:
        """Is it of a command before all that were seen?"""
        return self.first is None or position < self.first

    def lose(self) -> None:
        """Commands were missed."""
        self.first = self.next = self.begun = None
