"""Scanner of the AMQP 0-10 frames that a pump receives."""

from __future__ import annotations

from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, index_table
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.tally import KINDS, METHOD_COUNT
from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.return_reasons import FORCED, METHOD_COMES, WRONG
from amqproxy.taps.metering.amqp010.message_run import Amqp010MessageRun

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_SLOTS = cython.declare(cython.int, KINDS)
_UNKNOWN = cython.declare(cython.int, 0xFF)

_METHOD_COMES = cython.declare(cython.int, METHOD_COMES)
_FORCED = cython.declare(cython.int, FORCED)
_WRONG = cython.declare(cython.int, WRONG)


@cython.final
@cython.cclass
class Amqp010FrameScanner(FrameScanner):
    """Scanner that checks the order of frames like the `FrameReader` and stops before frames that a pump cannot relay.

    Those are unknown controls and commands, those kept for the session, controls in more than one frame, and all frames
    on a channel without an attached session. `keeps` has a 1 at the index of each control or command that is kept.
    """

    def __init__(self, keeps: bytes, tallies: tuple | None = None) -> None:
        p: cython.p_const_uchar
        index_of = index_table()
        segments = bytes([cls.segment for cls in BY_INDEX])
        carries = bytes([cls.carries_content for cls in BY_INDEX])
        if len(keeps) != METHOD_COUNT:
            raise ValueError(f"{METHOD_COUNT} controls and commands, not {len(keeps)}")
        super().__init__(KINDS, tallies)
        self._tables = (index_of, segments, carries, keeps)
        p = index_of
        self._index_of = p
        p = segments
        self._segments = p
        p = carries
        self._carries = p
        p = keeps
        self._keeps = p
        self._run = Amqp010MessageRun()

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def scan(
        self,
        direction: DirectionPointer,
        p: ConstBytePointer,
        length: cython.Py_ssize_t,
        out: BytePointer,
        reason: IntPointer,
    ) -> cython.Py_ssize_t:
        """Scan like `FrameScanner.scan`; write frames in the shortened form that an `Amqp010Meter` accepts."""
        end: cython.Py_ssize_t = self._scan(direction, p, length, reason)
        if out != cython.NULL:
            self.written = self._condense(direction.place, out, p, end)
        return end

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _scan(
        self, direction: DirectionPointer, p: ConstBytePointer, length: cython.Py_ssize_t, reason: IntPointer
    ) -> cython.Py_ssize_t:
        """Check and count whole frames; stop before frames in which the `FrameReader` would find an error."""
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
            else:  # counted for the command that the frame belongs to, if that is known
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

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _condense(
        self, is_server: cython.bint, out: BytePointer, data: ConstBytePointer, size: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the frames in shortened form and return the number of bytes written."""
        position: cython.Py_ssize_t = 0
        written: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        while position < size:
            end = self._run.take(is_server, data, position, size)
            if end > position:
                written = self._run.condense(out, written)
            else:
                end = position + short_at(data, position + 2)
                written += copy_bytes(
                    out + written, data + position, 12 if data[position + 1] == _BODY else end - position
                )
            position = end
        return written
