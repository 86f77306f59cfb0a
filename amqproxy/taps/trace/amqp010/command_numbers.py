"""Positions of the commands that one peer sends on a session."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.command_ids import position_of
from amqproxy.amqp010.sequence import SequenceSet


class CommandNumbers:
    """Numbering of the commands of one peer, beginning at session.command-point.

    `first` and `next` are the positions of the first and of the next command of the attachment, `None` while unknown;
    `begun` is the position of the command that is incomplete. After `stop`, later commands have no position.
    """

    __slots__ = ("_is_stopped", "_named", "begun", "first", "next")

    def __init__(self) -> None:
        self._is_stopped = False
        self._named = range(0)
        self.first: int | None = None
        self.next: int | None = None
        self.begun: int | None = None

    def point(self, command_id: int) -> None:
        """Take the id of the peer's next command, from its session.command-point."""
        before = self.next
        self.next = command_id if before is None else position_of(command_id, before)
        self.begun = None
        self._is_stopped = False
        if self.first is None or self.first == before:  # no command was seen
            self.first = self.next

    @property
    def last(self) -> int | None:
        """Position of the last command that has begun, -1 before the first; `None` while unknown."""
        return None if self.next is None or self._is_stopped else self.next - 1

    def restore(self, first: int, last: int, *, is_under_way: bool) -> None:
        """Take the position of the last command that has begun; those before `first` are unknown."""
        self.first, self.next = first, last + 1
        self.begun = last if is_under_way else None
        self._is_stopped = False

    def begin(self) -> int | None:
        """Begin a command, and return its position; `None` if unknown."""
        self.begun = position = None if self._is_stopped else self.next
        if position is not None:
            self.next = position + 1
        return position

    def finish(self) -> None:
        """Note that the command is complete."""
        self.begun = None

    def position(self, command_id: int) -> int | None:
        """Return the position that a command id stands for; `None` while positions are unknown."""
        return None if self.next is None else position_of(command_id, self.next)

    def ranges(self, commands: SequenceSet | None) -> Iterator[range]:
        """Yield the ranges of positions that a set stands for, without invalid ones; nothing while they are unknown."""
        if self.next is None or commands is None:
            return
        for first, last in commands.ranges:
            start = position_of(first, self.next)
            stop = position_of(last, start) + 1
            if start < stop:
                yield range(start, stop)

    def has_sent(self, position: int) -> bool:
        """Whether this command is complete, or may have been sent unseen."""
        if self.next is None or self._is_stopped:
            return True
        return position < (self.next if self.begun is None else self.begun)

    def name(self, commands: SequenceSet) -> None:
        """Note that the other peer has named these commands; in a capture, it may seem to name some too early."""
        if self.next is None:
            seen, named = 0, [range(first, last + 1) for first, last in commands.ranges]
        else:
            seen, named = self.next if self.begun is None else self.begun, list(self.ranges(commands))
        for positions in named:
            if positions.stop > seen:
                known = [self._named] if self._named.stop > seen else []
                starts, stops = zip(*[(each.start, each.stop) for each in (*known, positions)], strict=True)
                self._named = range(max(seen, min(starts)), max(stops))

    def is_named(self, position: int) -> bool:
        """Whether the other peer may have named this command before it was seen."""
        return position in self._named

    def is_before(self, position: int) -> bool:
        """Whether the position precedes all commands that were seen."""
        return self.first is None or position < self.first

    def stop(self) -> None:
        """Give later commands no position, since some were missed; ids still stand for those of earlier commands."""
        self.begun = None
        self._is_stopped = True

    def lose(self) -> None:
        """Forget all positions, since commands were missed."""
        self.first = self.next = self.begun = None
        self._is_stopped = False
