"""Completion of a client's commands, and what of it is yet to be reported to the client. Section 3.2.

The completions of a turn are reported together at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from amqproxy.amqp010.command_ids import CommandIds, id_of
from amqproxy.amqp010.commands import MessageAccept
from amqproxy.amqp010.controls import SessionCompleted, SessionConfirmed, SessionKnownCompleted
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet
from amqproxy.broker.amqp010.session_sender import SessionSender

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MANY_RANGES = 1024
"""Number of completed ranges unconfirmed by the client above which only new ones are reported.

The client is then asked to confirm them: to repeat all of them would make each turn's report long.
"""


class Completions:
    """Completion of one session's commands, by position; `is_new` is whether a completion is unreported."""

    def __init__(self) -> None:
        self.is_new = False
        self._completed = CommandIds()
        self._is_many = False
        """Whether the completed commands form more than `MANY_RANGES` ranges, so that only `_unreported` is reported.
        """
        self._unreported = CommandIds()
        self._incomplete: dict[int, None] = {}
        """Positions of the commands that have begun and are not complete."""
        self._begun: deque[int] = deque()
        """Their positions in order, with some complete ones: a dict scans past deleted keys to find its first."""
        self._syncs: deque[int] = deque()
        self._accepts_next = -1
        """Position of the last transfer to be accepted, which mostly is the next command to complete."""
        self._to_accept = CommandIds()
        self._accepted_along: dict[int, CommandIds] = {}
        self._accepted = CommandIds()
        self._known = CommandIds()

    @property
    def ranges(self) -> int:
        """Number of ranges of completed commands that the client may not know of."""
        return self._completed.ranges

    def begin(self, position: int) -> None:
        """Note that a command is executed and may complete later."""
        self._incomplete[position] = None
        self._begun.append(position)

    def has_begun(self, position: int) -> bool:
        """Return whether a command has begun and is not complete."""
        return position in self._incomplete

    def complete(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Complete the commands from `start` up to but excluding `stop`, and each sync that waited for them."""
        if self._incomplete:
            self._end(start, stop)
        self._note(start, stop)
        while self._syncs and not self._is_before(self._syncs[0]):
            position = self._syncs.popleft()
            del self._incomplete[position]
            self._note(position, position + 1)

    def complete_again(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Report commands as complete that were complete before, or that will never come."""
        self._note(start, stop)

    def _end(self, start: cython.longlong, stop: cython.longlong) -> None:
        incomplete = self._incomplete
        if stop - start <= len(incomplete):
            for position in range(start, stop):
                incomplete.pop(position, None)
        else:
            for position in [each for each in incomplete if start <= each < stop]:
                del incomplete[position]
        self._pass_complete()

    def _note(self, start: cython.longlong, stop: cython.longlong) -> None:
        if self._accepts_next >= 0:
            if start == self._accepts_next and stop == start + 1:
                self._accepted.extend(start, stop)
            else:
                self._to_accept.extend(self._accepts_next, self._accepts_next + 1)
            self._accepts_next = -1
        if self._accepted_along:
            self._accept_along(start, stop)
        elif self._to_accept:
            self._to_accept.move(start, stop, self._accepted)
        self._completed.extend(start, stop)
        if self._is_many:
            self._unreported.extend(start, stop)
        self.is_new = True

    def _accept_along(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Accept the transfers due in a range and the earlier fragments of their messages, each once."""
        for accepted in self._to_accept.remove(range(start, stop)):
            self._accepted.add(accepted)
            for position in accepted:
                for earlier in self._accepted_along.pop(position, ()):
                    self._accepted.add(earlier)

    def _is_before(self, position: int) -> bool:
        """Return whether a command before this one is incomplete."""
        self._pass_complete()
        return bool(self._begun) and self._begun[0] < position

    def _pass_complete(self) -> None:
        begun = self._begun
        while begun and begun[0] not in self._incomplete:
            begun.popleft()

    def sync(self, position: int) -> bool:
        """Complete a command that has begun once all before it are complete; return True if that is later."""
        if not self._is_before(position):
            return False
        self._syncs.append(position)
        return True

    def accept(self, position: cython.longlong, earlier: CommandIds | None = None) -> None:
        """Accept a transfer once it is complete, and with it `earlier` ones, fragments of the same message."""
        if self._accepts_next >= 0:
            self._to_accept.extend(self._accepts_next, self._accepts_next + 1)
        if earlier:
            self._accepts_next = -1
            self._to_accept.extend(position, position + 1)
            self._accepted_along[position] = earlier
        else:
            self._accepts_next = position

    def known(self, ids: Iterable[range]) -> None:
        """Forget completed commands that the client knows to be complete."""
        for each in ids:
            self._completed.remove(each)

    def to_be_known(self, ids: list[range]) -> None:
        """Note completions by the client that a session.known-completed must confirm."""
        for each in ids:
            self._known.extend(each.start, each.stop)

    def report(self, sender: SessionSender) -> None:
        """Send the acceptances, completions and known completions that are due."""
        if self._accepted:
            accepted, self._accepted = list(self._accepted), CommandIds()
            for start in range(0, len(accepted), MAX_RANGES):
                sender.send(MessageAccept(_set(accepted[start : start + MAX_RANGES])))
        if self.is_new:
            self.is_new = False
            self._forget_oldest()
            was_many, self._is_many = self._is_many, self._completed.ranges > MANY_RANGES
            ids = self._completed
            if was_many and self._is_many and self._unreported.ranges < ids.ranges:
                ids = self._unreported
            sender.control(SessionCompleted(_set(ids), timely_reply=self._is_many))
            self._unreported.clear()
        if self._known:
            known, self._known = list(self._known), CommandIds()
            for start in range(0, len(known), MAX_RANGES):
                sender.control(SessionKnownCompleted(_set(known[start : start + MAX_RANGES])))

    def report_afresh(self) -> None:
        """Report all completions again: the client may not have received the former reports."""
        self.is_new = True
        self._is_many = False

    def report_all(self, sender: SessionSender, *, confirmed: bool, completed: bool) -> None:
        """Send everything that the client asks for by session.flush."""
        self._forget_oldest()
        if confirmed:
            sender.control(SessionConfirmed(_set(self._completed)))
        if completed:
            self.is_new = False
            self._unreported.clear()
            sender.control(SessionCompleted(_set(self._completed)))

    def _forget_oldest(self) -> None:
        """Drop the oldest ranges beyond what one report holds: the client has had the time to learn of them."""
        if self._completed.ranges > MAX_RANGES:
            ranges = list(self._completed)
            self._completed.remove(range(ranges[0].start, ranges[len(ranges) - MAX_RANGES].start))


def _set(ids: Iterable[range]) -> SequenceSet:
    return SequenceSet([(id_of(each.start), id_of(each.stop - 1)) for each in ids])
