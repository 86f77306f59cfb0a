"""Which commands of a session's client are complete, and what of that the client has still to be sent. Section 3.2.

What happens in a turn is reported at its end, in one go.
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
"""Ranges of completed commands that the client has not confirmed to know of, above which it is asked to, and sent only
what is new: all of them again would be a long report of each turn.
"""


class Completions:
    """Of one session, by the positions of its commands. `is_new` is whether one is complete that is not reported."""

    def __init__(self) -> None:
        self.is_new = False
        self._completed = CommandIds()
        self._is_many = False
        """Are those that are complete so many ranges that only those of `_unreported` are to be reported?"""
        self._unreported = CommandIds()
        self._incomplete: dict[int, None] = {}
        """Those that were begun, and are not complete."""
        self._begun: deque[int] = deque()
        """The same in their order, and some that are complete: a dict finds its first behind all that it had."""
        self._syncs: deque[int] = deque()
        self._accepts_next = -1
        """The last one to be accepted, which mostly is the next one to be complete."""
        self._to_accept = CommandIds()
        self._accepted_along: dict[int, CommandIds] = {}
        self._accepted = CommandIds()
        self._known = CommandIds()

    @property
    def ranges(self) -> int:
        """How many ranges the completed commands are that the client may not know of."""
        return self._completed.ranges

    def begin(self, position: int) -> None:
        """A command is executed, which may take longer than this."""
        self._incomplete[position] = None
        self._begun.append(position)

    def has_begun(self, position: int) -> bool:
        """Is a command begun, and not complete?"""
        return position in self._incomplete

    def complete(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Commands are done, from `start` on those before `stop`; and with them each sync that waited for them."""
        if self._incomplete:
            self._end(start, stop)
        self._note(start, stop)
        while self._syncs and not self._is_before(self._syncs[0]):
            position = self._syncs.popleft()
            del self._incomplete[position]
            self._note(position, position + 1)

    def complete_again(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Commands are done that were before, or that will never come."""
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
        """Accept what is to be, and what that has brought along: each once, whatever ranges are complete."""
        for accepted in self._to_accept.remove(range(start, stop)):
            self._accepted.add(accepted)
            for position in accepted:
                for earlier in self._accepted_along.pop(position, ()):
                    self._accepted.add(earlier)

    def _is_before(self, position: int) -> bool:
        """Is a command before this one not complete?"""
        self._pass_complete()
        return bool(self._begun) and self._begun[0] < position

    def _pass_complete(self) -> None:
        begun = self._begun
        while begun and begun[0] not in self._incomplete:
            begun.popleft()

    def sync(self, position: int) -> bool:
        """Complete a command that has begun once all before it are complete; True if that is later."""
        if not self._is_before(position):
            return False
        self._syncs.append(position)
        return True

    def accept(self, position: cython.longlong, earlier: CommandIds | None = None) -> None:
        """A transfer is to be accepted once it is complete, and with it `earlier` ones, parts of the same message."""
        if self._accepts_next >= 0:
            self._to_accept.extend(self._accepts_next, self._accepts_next + 1)
        if earlier:
            self._accepts_next = -1
            self._to_accept.extend(position, position + 1)
            self._accepted_along[position] = earlier
        else:
            self._accepts_next = position

    def known(self, ids: Iterable[range]) -> None:
        """The client knows that these of its commands are complete."""
        for each in ids:
            self._completed.remove(each)

    def to_be_known(self, ids: list[range]) -> None:
        """The client has completed commands, and is to be notified that this is known."""
        for each in ids:
            self._known.extend(each.start, each.stop)

    def report(self, sender: SessionSender) -> None:
        """Send what is new."""
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
        """The client may not have what was reported: report all of it again."""
        self.is_new = True
        self._is_many = False

    def report_all(self, sender: SessionSender, *, confirmed: bool, completed: bool) -> None:
        """Send all that the client asks for by session.flush."""
        self._forget_oldest()
        if confirmed:
            sender.control(SessionConfirmed(_set(self._completed)))
        if completed:
            self.is_new = False
            self._unreported.clear()
            sender.control(SessionCompleted(_set(self._completed)))

    def _forget_oldest(self) -> None:
        """Report no more ranges than fit: a client that wants to know of its oldest commands has had the time."""
        if self._completed.ranges > MAX_RANGES:
            ranges = list(self._completed)
            self._completed.remove(range(ranges[0].start, ranges[len(ranges) - MAX_RANGES].start))


def _set(ids: Iterable[range]) -> SequenceSet:
    return SequenceSet([(id_of(each.start), id_of(each.stop - 1)) for each in ids])
