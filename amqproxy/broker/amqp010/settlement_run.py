"""A client's completions and acceptances, each of few transfers: those that follow one another are taken as one."""

from __future__ import annotations

from amqproxy.amqp010.command_ids import position_of
from amqproxy.amqp010.commands import MessageAccept
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.frame import OVERHEAD, WHOLE_ASSEMBLY, Frame
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.amqp010.session_deliveries import AT_ONCE

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.broker.amqp010.header_shape import is_alike
    from amqproxy.compiled.byte_access import long_at

MOST = 2 * AT_ONCE
"""Frames of one run: no more than what a turn may do without a look at its time."""

_RANGE = 8
"""Bytes of a range on the wire: its first and its last id."""

_ONE = SequenceSet([(0, 0)])

# What comes before the only range of a completion, and of an acceptance, as C sees it.
_COMPLETION = cython.declare(bytes, SessionCompleted(_ONE).encode()[:-_RANGE])
_ACCEPTANCE = cython.declare(bytes, MessageAccept(_ONE).encode()[:-_RANGE])
_COMPLETED = cython.declare(cython.int, SessionCompleted.index)
_ACCEPT = cython.declare(cython.int, MessageAccept.index)
_WHOLE_ASSEMBLY = cython.declare(cython.int, WHOLE_ASSEMBLY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_AT_ONCE = cython.declare(cython.longlong, AT_ONCE)
_MOST = cython.declare(cython.Py_ssize_t, MOST)


class SettlementRun:
    """Frames of one session that follow one another, each a session.completed or a message.accept of a single range,
    where the ranges of either kind follow one another, or overlap.

    They are read from their bytes, since to decode each of them cost more than what it asks for. `accepts` is how many
    of them are commands; at most `session_deliveries.AT_ONCE` transfers are accepted by a run.
    """

    def __init__(self) -> None:
        self.accepts = 0
        self._completed = self._completed_to = self._accepted = self._accepted_to = 0

    @property
    def completed(self) -> range:
        """The positions of the transfers that are completed."""
        return range(self._completed, self._completed_to)

    @property
    def accepted(self) -> range:
        """The positions of those that are accepted."""
        return range(self._accepted, self._accepted_to)

    def gather(self, frames: list[Frame], place: cython.Py_ssize_t, sent: cython.longlong) -> cython.Py_ssize_t:
        """Begin anew, from a place on: how many frames are of one run. Only transfers before `sent` can be."""
        self.accepts = 0
        self._completed = self._completed_to = self._accepted = self._accepted_to = 0
        first: Frame = frames[place]
        end: cython.Py_ssize_t = min(len(frames), place + _MOST)
        at: cython.Py_ssize_t = place
        frame: Frame
        while at < end:
            frame = frames[at]
            if frame.channel != first.channel or not self._add(frame, sent):
                break
            at += 1
        return at - place

    def _add(self, frame: Frame, sent: cython.longlong) -> cython.bint:
        """Let a frame be the next one; False where it cannot be."""
        is_accept: cython.bint = frame.index == _ACCEPT
        if frame.flags != _WHOLE_ASSEMBLY or not (is_accept or frame.index == _COMPLETED):
            return False
        before: bytes = _ACCEPTANCE if is_accept else _COMPLETION
        size: cython.Py_ssize_t = len(before)
        at: cython.Py_ssize_t = frame._start + _OVERHEAD
        if frame._end - at != size + _RANGE or not is_alike(frame._buffer, at, before, 0, size):
            return False
        p: cython.p_const_uchar = frame._buffer
        start: cython.longlong = position_of(long_at(p, at + size), sent)
        stop: cython.longlong = position_of(long_at(p, at + size + 4), sent) + 1
        known: cython.longlong = self._accepted if is_accept else self._completed
        known_to: cython.longlong = self._accepted_to if is_accept else self._completed_to
        if start >= stop or stop > sent:  # a completion is not of what is sent because of it
            return False
        if known < known_to:
            if not known <= start <= known_to:
                return False
            start, stop = known, max(stop, known_to)
        if not is_accept:
            self._completed, self._completed_to = start, stop
            return True
        if stop - start > _AT_ONCE:
            return False
        self.accepts += 1
        self._accepted, self._accepted_to = start, stop
        return True
