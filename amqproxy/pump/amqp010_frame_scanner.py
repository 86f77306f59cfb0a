"""Scans what a pump has received of AMQP 0-10: which of it may be sent on, and what is counted of it."""

from __future__ import annotations

from amqproxy.amqp010.frame import COMMAND, CONTROL, HEADER, index_table
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.tally import KINDS, METHOD_COUNT
from amqproxy.pump.frame_counts import FrameCounts
from amqproxy.pump.return_reasons import FORCED, METHOD_COMES, WRONG

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_HEADER = cython.declare(cython.int, HEADER)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_SLOTS = cython.declare(cython.int, KINDS)
_UNKNOWN = cython.declare(cython.int, 0xFF)

_METHOD_COMES = cython.declare(cython.int, METHOD_COMES)
_FORCED = cython.declare(cython.int, FORCED)
_WRONG = cython.declare(cython.int, WRONG)


@cython.final
@cython.cclass
class Amqp010FrameScanner:
    """Goes over frames as the `FrameReader` of AMQP 0-10 does, but stops before whatever is not for a pump.

    That are controls and commands that are not known, those that are kept, controls in more than one frame, and all on
    a channel to which no session is attached. `keeps` has a 1 at the index of each that is kept. One thread scans;
    another one, at any time, collects what was counted.
    """

    def __init__(self, keeps: bytes) -> None:
        p: cython.p_const_uchar
        index_of = index_table()
        segments = bytes([cls.segment for cls in BY_INDEX])
        carries = bytes([cls.carries_content for cls in BY_INDEX])
        if len(keeps) != METHOD_COUNT:
            raise ValueError(f"{METHOD_COUNT} controls and commands, not {len(keeps)}")
        self._tables = (index_of, segments, carries, keeps)
        p = index_of
        self._index_of = p
        p = segments
        self._segments = p
        p = carries
        self._carries = p
        p = keeps
        self._keeps = p
        self._counts = FrameCounts(KINDS)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def scan(
        self, direction: DirectionPointer, p: ConstBytePointer, length: cython.Py_ssize_t, reason: IntPointer
    ) -> cython.Py_ssize_t:
        """Go over the whole frames, and count them: the place where they end, or where one is that is not for a pump.

        What would be an error in the `FrameReader` is left to it.
        """
        position: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        flags: cython.int
        kind: cython.int
        track: cython.int
        index: cython.int
        state: cython.int
        slot: cython.int
        why: cython.int = 0
        frames: cython.ulonglong = 0
        on: ChannelContentPointer
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        frames_seen: CounterPointer = self._counts.frames + direction.place * _SLOTS
        bytes_seen: CounterPointer = self._counts.sizes + direction.place * _SLOTS
        while length - position >= 4:
            flags = p[position]
            kind = p[position + 1]
            size = p[position + 2] << 8 | p[position + 3]
            if flags > 15 or kind > 3 or size < 12 or size > direction.payload_max:
                why = _WRONG
                break
            if length - position < 12:
                break
            track = p[position + 5]
            if p[position + 4] | p[position + 8] | p[position + 9] | p[position + 10] | p[position + 11] or track > 1:
                why = _WRONG
                break
            index = -1
            if kind <= _COMMAND and flags & 2:
                if size >= 14:
                    if length - position < 14:
                        break
                    index = self._index_of[p[position + 12] << 8 | p[position + 13]]
                if index < 0 or index == _UNKNOWN or self._segments[index] != kind or self._keeps[index]:
                    why = _METHOD_COMES
                    break
            if kind == _CONTROL and flags & 3 != 3:
                why = _METHOD_COMES
                break
            if length - position < size:
                break
            if connection.frames_left == 0:
                why = _FORCED
                break
            on = channel_of(direction, p[position + 6] << 9 | p[position + 7] << 1 | track)
            if on == cython.NULL:
                why = _METHOD_COMES
                break
            state = next_state(on.expects, flags, kind, track, index, index < 0 or self._carries[index])
            if state < 0:
                why = _WRONG
                break
            if index >= 0:
                slot = index
            else:  # of the command that it belongs to, if that is known
                slot = (on.expects >> 8) - 1
                if slot < 0:
                    slot = 3 * _METHOD_COUNT + kind
                elif kind >= _HEADER:
                    slot += (kind - 1) * _METHOD_COUNT
            if kind == _COMMAND and flags & 10 == 10:
                add(cython.address(on.contents), 1)
            put_int(cython.address(on.expects), state)
            add(cython.address(frames_seen[slot]), 1)
            add(cython.address(bytes_seen[slot]), size)
            frames += 1
            if connection.frames_left > 0:
                connection.frames_left -= 1
            position += size
        add(cython.address(direction.frames), frames)
        reason[0] = why
        return position

    def collect(self, tallies: tuple) -> None:
        """Add to the tallies of both peers what was counted since this was last asked."""
        self._counts.collect(tallies)
