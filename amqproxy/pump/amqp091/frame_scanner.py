"""Scanner of the AMQP 0-9-1 frames that a pump receives."""

from __future__ import annotations

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, index_table
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.tally import KINDS, METHOD_COUNT
from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.return_reasons import FORCED, LARGE, METHOD_COMES, WRONG
from amqproxy.taps.metering.amqp091.acknowledgement_run import AcknowledgementRun
from amqproxy.taps.metering.amqp091.message_run import MessageRun

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_HEARTBEAT = cython.declare(cython.int, HEARTBEAT)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_SLOTS = cython.declare(cython.int, KINDS)
_UNKNOWN = cython.declare(cython.int, 0xFF)

_METHOD_COMES = cython.declare(cython.int, METHOD_COMES)
_FORCED = cython.declare(cython.int, FORCED)
_LARGE = cython.declare(cython.int, LARGE)
_WRONG = cython.declare(cython.int, WRONG)


@cython.final
@cython.cclass
class Amqp091FrameScanner(FrameScanner):
    """Scanner that checks the order of frames like the `FrameReader` and stops before frames that a pump cannot relay.

    Those are frames of more than `largest` bytes, and the methods kept for the session: `keeps` has, for the client and
    for the server, a 1 at the index of each.
    """

    def __init__(self, keeps: tuple, largest: int, tallies: tuple | None = None) -> None:
        place: cython.int
        index: cython.int
        keep: bytes
        p: cython.p_const_uchar
        index_of = index_table()
        carries = bytes([cls.carries_content for cls in BY_INDEX])
        super().__init__(KINDS, tallies)
        self._tables = (index_of, carries)
        p = index_of
        self._index_of = p
        p = carries
        self._carries = p
        self._largest = largest
        for place in range(2):
            keep = keeps[place]
            for index in range(METHOD_COUNT):
                self._keeps[place][index] = keep[index]
        self._run = MessageRun()
        self._acknowledgements = AcknowledgementRun()

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
        """Scan like `FrameScanner.scan`; write frames in the shortened form that a `MessageMeter` accepts.

        Scanning stops before frames in which the `FrameReader` would find an error. Nearly all frames belong to runs,
        which are taken as a whole.
        """
        position: cython.Py_ssize_t = 0
        whole: cython.longlong
        size: cython.longlong
        kind: cython.int
        index: cython.int
        slot: cython.int
        why: cython.int = 0
        frames: cython.ulonglong = 0
        written: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        channel: ChannelContentPointer
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        frames_seen: CounterPointer = self._counts.frames + direction.place * _SLOTS
        bytes_seen: CounterPointer = self._counts.sizes + direction.place * _SLOTS
        while length - position >= 7:
            kind = p[position]
            size = long_at(p, position + 3)
            whole = size + 8
            if size > direction.payload_max and (kind != _HEADER or size > direction.header_max):
                why = _WRONG
                break
            if whole > self._largest:
                why = _LARGE
                break
            if length - position < whole:
                if kind == _METHOD and size >= 4 and length - position >= 11:
                    index = self._index_of[p[position + 8] * 256 + p[position + 10]]
                    if index == _UNKNOWN or self._keeps[direction.place][index]:
                        why = _METHOD_COMES
                break
            if p[position + whole - 1] != 0xCE:
                why = _WRONG
                break
            if connection.frames_left == 0:
                why = _FORCED
                break
            if kind == _HEARTBEAT:
                if size != 0 or p[position + 1] | p[position + 2]:
                    why = _WRONG
                    break
                slot = 4 * _METHOD_COUNT
            else:
                channel = channel_of(direction, (p[position + 1] << 8) | p[position + 2])
                if kind == _METHOD:
                    index = _UNKNOWN
                    if size >= 4 and p[position + 7] | p[position + 9] == 0:
                        index = self._index_of[p[position + 8] * 256 + p[position + 10]]
                    if index == _UNKNOWN or self._keeps[direction.place][index] or channel == cython.NULL:
                        why = _METHOD_COMES
                        break
                    if channel.expects != _METHOD:
                        why = _WRONG
                        break
                    end = self._take_run(direction, channel, index, p, position, length)
                    if end > position:
                        if out != cython.NULL:
                            written = self._condense(direction.place, index, out, written, p)
                        frames += self._taken
                        position = end
                        continue
                    if self._carries[index]:
                        put_int(cython.address(channel.expects), _HEADER)
                        put_int(cython.address(channel.index), index)
                        add(cython.address(channel.contents), 1)
                    slot = index
                elif channel == cython.NULL:
                    why = _WRONG
                    break
                elif kind == _HEADER:
                    if (
                        channel.expects != _HEADER
                        or size < 12
                        or p[position + 7] | (p[position + 8] ^ 60) | p[position + 9] | p[position + 10]
                    ):
                        why = _WRONG
                        break
                    put(cython.address(channel.remaining), long_long_at(p, position + 11))
                    put_int(cython.address(channel.expects), _BODY if channel.remaining > 0 else _METHOD)
                    slot = _METHOD_COUNT + channel.index
                elif kind == _BODY:
                    if channel.expects != _BODY or cython.cast(cython.ulonglong, size) > channel.remaining:
                        why = _WRONG
                        break
                    put(cython.address(channel.remaining), channel.remaining - size)
                    if channel.remaining == 0:
                        put_int(cython.address(channel.expects), _METHOD)
                    slot = 2 * _METHOD_COUNT + channel.index
                else:
                    why = _WRONG
                    break
            add(cython.address(frames_seen[slot]), 1)
            add(cython.address(bytes_seen[slot]), whole)
            frames += 1
            if connection.frames_left > 0:
                connection.frames_left -= 1
            if out != cython.NULL:
                written += copy_bytes(out + written, p + position, 7 if kind == _BODY else whole)
            position += whole
        add(cython.address(direction.frames), frames)
        self.written = written
        reason[0] = why
        return position

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _take_run(
        self,
        direction: DirectionPointer,
        channel: ChannelContentPointer,
        index: cython.int,
        p: ConstBytePointer,
        position: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Count a run that begins with a method of this index; return its end, or `position` without a run.

        `_taken` is the number of its frames.
        """
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        frames_seen: CounterPointer = self._counts.frames + direction.place * _SLOTS
        bytes_seen: CounterPointer = self._counts.sizes + direction.place * _SLOTS
        header_max: cython.longlong = direction.header_max
        end: cython.Py_ssize_t
        count: cython.ulonglong
        if self._carries[index]:
            if header_max < direction.payload_max:
                header_max = direction.payload_max
            end = self._run.take(direction.place, p, position, length, direction.payload_max, header_max)
            self._taken = self._run.frames
            if end == position or 0 <= connection.frames_left < self._taken:
                return position
            count = self._run.count
            put_int(cython.address(channel.index), index)
            add(cython.address(channel.contents), count)
            add(cython.address(frames_seen[_METHOD_COUNT + index]), count)
            add(cython.address(bytes_seen[_METHOD_COUNT + index]), self._run.header_bytes)
            if self._run.size:
                add(cython.address(frames_seen[2 * _METHOD_COUNT + index]), count)
                add(cython.address(bytes_seen[2 * _METHOD_COUNT + index]), count * (self._run.size + 8))
            add(cython.address(bytes_seen[index]), self._run.method_bytes)
        else:
            end = self._acknowledgements.take(direction.place, p, position, length)
            count = self._acknowledgements.count
            self._taken = count
            if end == position or 0 <= connection.frames_left < self._taken:
                return position
            add(cython.address(bytes_seen[index]), end - position)
        add(cython.address(frames_seen[index]), count)
        if connection.frames_left > 0:
            connection.frames_left -= self._taken
        return end

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _condense(
        self,
        is_server: cython.bint,
        index: cython.int,
        out: BytePointer,
        written: cython.Py_ssize_t,
        p: ConstBytePointer,
    ) -> cython.Py_ssize_t:
        """Append the run that was taken last to the `written` bytes, and return the new number of bytes."""
        if self._carries[index]:
            return self._run.condense(is_server, p, out, written)
        return self._acknowledgements.condense(out, written)
