"""Commands that one peer has sent on a session, and their acknowledgement by the other (section 3.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from amqproxy.amqp010.command_ids import CommandIds, id_of, position_of
from amqproxy.amqp010.errors import (
    FramingError,
    IllegalState,
    InvalidArgument,
    ProtocolError,
    ResourceLimitExceeded,
    UnknownIds,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.sequence import SequenceSet

MAX_RANGES = 65_536
"""Maximum number of ranges of commands that are incomplete, or complete but not known to be, which limits memory."""

MAX_UNANSWERED = 65_536
"""Maximum number of commands that await their result, or the completion of all before them."""

BARRIERS = {
    "execution.sync": "10.1 execution.sync",
    "tx.commit": "10.3 tx.commit",
    "tx.rollback": "10.3 tx.rollback",
}
"""Commands that are complete only after all commands before them, with the section that specifies it."""


class CommandStream:
    """One direction of a session.

    `next` is the position of the next command (`None` before session.command-point), `seen` the position after the last
    complete one (`None` before the first). Of the sent commands, `incomplete` are without session.completed,
    `completed` are complete without session.known-completed, `confirmed` are confirmed but incomplete; `awaited` are
    those with the sync bit, `unanswered` those whose results are outstanding. `offset` is the number of bytes of the
    next command that will not be sent again.

    A control is applied as far as possible before an error is raised.
    """

    __slots__ = (
        "_barriers",
        "_is_partial",
        "awaited",
        "completed",
        "confirmed",
        "incomplete",
        "next",
        "offset",
        "seen",
        "unanswered",
    )

    def __init__(self) -> None:
        self.next: int | None = None
        self.seen: int | None = None
        self.offset = 0
        self.incomplete = CommandIds()
        self.completed = CommandIds()
        self.confirmed = CommandIds()
        self.awaited = CommandIds()
        self.unanswered: dict[int, Command] = {}
        self._barriers: deque[tuple[int, str]] = deque()
        self._is_partial = False

    @property
    def is_new(self) -> bool:
        """Whether no command has been sent yet, on this channel or another."""
        return self.seen is None

    def reattach(self) -> None:
        """Expect a new command-point, as after attaching the session to another channel."""
        self.next = None
        self.offset = 0
        self._is_partial = False

    # --- what its sender sends

    def point(self, command_id: int, offset: int) -> None:
        """Process a session.command-point."""
        self.next = command_id if self.seen is None else position_of(command_id, self.seen)
        self.offset = offset
        self._is_partial = False

    def begin(self, *, is_first: bool) -> int:
        """Return the position of the command of the next frame; `is_first` if the frame begins an assembly."""
        if self.next is None:
            raise UnknownIds(
                "a command before any session.command-point",
                section="9.2 session.command-point, newly-attached-transports",
            )
        offset, self.offset = self.offset, 0
        if is_first and offset:
            raise FramingError(
                f"a new command where byte {offset} of one was announced",
                section="9.2 session.command-point, nonzero-offset",
            )
        if not is_first and not offset:
            raise FramingError(
                "the rest of a command where a new one was announced",
                section="9.2 session.command-point, zero-offset",
            )
        position = self.next
        self.next = position + 1
        self._is_partial = True
        return position

    def finish(self, position: int, method: Command | None, *, is_sync: bool = False) -> bool:
        """Process the end of a command, `None` if unreadable; return `False` if it was sent again after its effect."""
        self._is_partial = False
        if self.seen is not None and position < self.seen:
            return False
        self.seen = position + 1
        alone = range(position, position + 1)
        self.incomplete.add(alone)
        if is_sync:
            self.awaited.add(alone)
        if method is None:
            return True
        if method.name in BARRIERS:
            self._barriers.append((position, method.name))
        if method.result is not None:
            self.unanswered[position] = method
        self._bound()
        return True

    def abort(self) -> None:
        """Discard a partly sent command."""
        self._is_partial = False

    def skip(self, commands: SequenceSet, done: list[range]) -> None:
        """Process a session.gap: add the skipped commands, which are complete, to `done`, and continue after them."""
        if self.next is None:
            raise IllegalState("a session.gap before any session.command-point", section="9.2 session.gap")
        skipped: list[range] = []
        try:
            for ids in self._ranges(commands):
                if ids.start <= self.next < ids.stop:
                    self.next = ids.stop
                if self.seen is not None and self.seen < ids.stop:
                    self.seen = max(self.seen, self.next)
                done += self.incomplete.remove(ids)
                self._settle(ids)
                skipped.append(ids)
        finally:
            for position in self._unanswered_in(skipped):
                del self.unanswered[position]
        self._bound()

    def know(self, commands: SequenceSet) -> None:
        """Process a session.known-completed."""
        fault: ProtocolError | None = None
        for ids in self._ranges(commands):
            self.completed.remove(ids)
            if self.incomplete.has_any(ids) or not self._is_sent(ids):
                fault = IllegalState(
                    f"{_text(ids)} known to be complete before they are", section="9.2 session.known-completed"
                )
        if fault:
            raise fault

    # --- controls of the partner

    def complete(self, commands: SequenceSet, done: list[range]) -> None:
        """Process a session.completed; add the newly completed commands to `done`."""
        fault: ProtocolError | None = None
        for ids in self._ranges(commands):
            if not self._is_sent(ids):
                fault = InvalidArgument(f"{_text(ids)} completed, not all of which were sent", section="3.2.3")
            removed = self.incomplete.remove(ids)
            for part in removed:
                self.completed.add(part)
            self._settle(ids)
            done += removed
        if early := self._unanswered_in(done):
            for position in early:
                method = self.unanswered.pop(position)
            fault = IllegalState(f"{method.name} completed before its execution.result", section="3.4.1.2")
        self._bound()
        if fault := self._check_barriers() or fault:
            raise fault

    def confirm(self, commands: SequenceSet) -> None:
        """Process a session.confirmed."""
        fault: ProtocolError | None = None
        for ids in self._ranges(commands):
            if not self._is_sent(ids):
                fault = InvalidArgument(f"{_text(ids)} confirmed, not all of which were sent", section="3.2.2")
            elif self.incomplete.has_any(ids):
                self.confirmed.add(ids)
        self._bound()
        if fault:
            raise fault

    def expect(self, commands: SequenceSet) -> None:
        """Process a session.expected, which may name the next command, and nothing after it."""
        for ids in self._ranges(commands):
            end = self.next if self.next is not None else self.seen
            if end is not None and ids.stop > end + 1:
                raise InvalidArgument(f"{_text(ids)} expected, which go past the next", section="9.2 session.expected")

    def answer(self, command_id: int) -> Command:
        """Process an execution.result; return its command."""
        position = self.position(command_id)
        method = self.unanswered.pop(position, None)
        if method is None:
            raise InvalidArgument(f"a result for command {command_id}, which awaits none", section="3.4.1.2")
        return method

    def position(self, command_id: int) -> int:
        """Return the position of a sent command; raise `ProtocolError` if none has this id."""
        position = self._position(command_id)
        if not self._is_sent(range(position, position + 1)):
            raise InvalidArgument(f"command {command_id} referred to, which was not sent", section="3.2.1")
        return position

    def positions(self, commands: SequenceSet) -> list[range]:
        """Like `position`, for a sequence set."""
        found = list(self._ranges(commands))
        for ids in found:
            if not self._is_sent(ids):
                raise InvalidArgument(f"{_text(ids)} referred to, not all of which were sent", section="3.2.1")
        return found

    # --- inside

    def _unanswered_in(self, ranges: Iterable[range]) -> list[int]:
        if not self.unanswered:
            return []
        ids = CommandIds.of(ranges)  # either may be tens of thousands
        return [each for each in self.unanswered if each in ids]

    def _position(self, command_id: int) -> int:
        near = self.next if self.next is not None else self.seen
        return command_id if near is None else position_of(command_id, near)

    def _ranges(self, commands: SequenceSet) -> Iterable[range]:
        for first, last in commands.ranges:
            start = self._position(first)
            stop = position_of(last, start) + 1
            if stop <= start:
                raise InvalidArgument(f"a range of commands from {first} to {last}", section="7 sequence-set")
            yield range(start, stop)

    def _is_sent(self, ids: range) -> bool:
        """Whether all of these commands were sent completely."""
        if self.next is None:
            return self.seen is not None and ids.stop <= self.seen
        return ids.stop <= max(self.next - self._is_partial, self.seen or 0)

    def _settle(self, ids: range) -> None:
        self.confirmed.remove(ids)
        self.awaited.remove(ids)

    def _check_barriers(self) -> ProtocolError | None:
        """Forget completed barriers; return the error of one that is complete before an earlier command."""
        fault = None
        barriers, incomplete = self._barriers, self.incomplete
        while barriers:
            barrier, name = barriers[0]
            if incomplete.has_any(range(barrier, barrier + 1)):
                break
            barriers.popleft()
            first = incomplete.first
            if first is not None and first < barrier:
                fault = IllegalState(
                    f"{name}, command {id_of(barrier)}, completed before command {id_of(first)}", section=BARRIERS[name]
                )
        return fault

    def _bound(self) -> None:
        if len(self.unanswered) + len(self._barriers) > MAX_UNANSWERED:
            raise ResourceLimitExceeded(f"more than {MAX_UNANSWERED} commands that await a result, or all before them")
        for held in (self.incomplete, self.completed, self.confirmed, self.awaited):
            if held.ranges > MAX_RANGES:
                raise ResourceLimitExceeded(f"more than {MAX_RANGES} ranges of commands that are not settled")


def _text(ids: range) -> str:
    return f"command {id_of(ids[0])}" if len(ids) == 1 else f"commands {id_of(ids[0])} to {id_of(ids[-1])}"
