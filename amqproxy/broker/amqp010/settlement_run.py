"""Runs of a client's completions and acceptances, each of few transfers: successive ones are taken as one."""

from __future__ import annotations

from amqproxy.amqp010.command_ids import position_of
from amqproxy.amqp010.commands import MessageAccept
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.frame import OVERHEAD, WHOLE_ASSEMBLY, Frame
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.connections.deliveries import AT_ONCE

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.broker.amqp010.header_shape import is_alike
    from amqproxy.compiled.byte_access import long_at

MOST = 2 * AT_ONCE
"""Maximum number of frames in one run: what a turn may process without a look at its time."""

_RANGE = 8
"""Bytes of a range on the wire: its first and its last id."""

_ONE = SequenceSet([(0, 0)])

# Bytes before the only range of a completion, and of an acceptance, typed for C.
_COMPLETION = cython.declare(bytes, SessionCompleted(_ONE).encode()[:-_RANGE])
_ACCEPTANCE = cython.declare(bytes, MessageAccept(_ONE).encode()[:-_RANGE])
_COMPLETED = cython.declare(cython.int, SessionCompleted.index)
_ACCEPT = cython.declare(cython.int, MessageAccept.index)
_WHOLE_ASSEMBLY = cython.declare(cython.int, WHOLE_ASSEMBLY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_AT_ONCE = cython.declare(cython.longlong, AT_ONCE)
_MOST = cython.declare(cython.Py_ssize_t, MOST)


class SettlementRun:
    """Successive frames of one session, each a session.completed or a message.accept of a single range.

    The ranges of either kind follow one another, or overlap. Frames are read from their bytes, since decoding each of
    them cost more than executing it. `accepts` is how many of the frames are commands; a run accepts at most
    `deliveries.AT_ONCE` transfers.
    """

    def __init__(self) -> None:
        self.accepts = 0
        self._completed = self._completed_to = self._accepted = self._accepted_to = 0

    @property
    def completed(self) -> range:
        """Positions of the completed transfers."""
        return range(self._completed, self._completed_to)

    @property
    def accepted(self) -> range:
        """Positions of the accepted transfers."""
        return range(self._accepted, self._accepted_to)

    def gather(self, frames: list[Frame], place: cython.Py_ssize_t, sent: cython.longlong) -> cython.Py_ssize_t:
        """Start a new run at a place; return how many frames it has.

        Only transfers before `sent` can be in it.
        """
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
        """Add the next frame to the run; return False if it does not belong to it."""
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
        if start >= stop or stop > sent:  # a completion cannot refer to transfers that it causes to be sent
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
