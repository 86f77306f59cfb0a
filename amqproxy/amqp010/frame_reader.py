"""Bytes to frames, in the order that assemblies allow (sections 4.4.1 and 4.4.3).

A `FrameReader` is one direction of one connection. It accepts bytes in any division and finds the complete frames; its
owner selects the frames that are returned as `Frame`s. The others are checked and counted in place: no object is made
of them.
"""

from __future__ import annotations

from amqproxy.amqp010.errors import FramingError, ProtocolError
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    CONTROL,
    FRAME_MIN_SIZE,
    HEADER,
    MAX_FRAME,
    Frame,
    decode_method,
    index_table,
)
from amqproxy.amqp010.methods import BY_INDEX, BY_NAME
from amqproxy.amqp010.tally import METHOD_COUNT, UNCOUNTED, Tally
from amqproxy.compiled.frame_input import FrameInput

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

EVERY_METHOD = bytes([1]) * METHOD_COUNT

MAX_CHANNEL = 65_535

# Constants of the loop over frames as C variables.
_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_PIECE = cython.declare(cython.Py_ssize_t, 448)
"""Size of the shared piece of input bytes that small frames refer to, unless they share the whole input."""

_INDEX_OF = cython.declare(bytes, index_table())
_SEGMENTS = cython.declare(bytes, bytes([cls.segment for cls in BY_INDEX]))
_CARRIES_CONTENT = cython.declare(bytes, bytes([cls.carries_content for cls in BY_INDEX]))
_TUNE_OK = cython.declare(cython.int, BY_NAME["connection.tune-ok"].index)
_ENDS_COMMAND = 2
_NUMBERING = ("attach", "attached", "detach", "detached", "command-point", "gap")
_TURNS = cython.declare(
    bytes,
    bytes(
        [
            1 if cls.index == _TUNE_OK else _ENDS_COMMAND if cls.name.removeprefix("session.") in _NUMBERING else 0
            for cls in BY_INDEX
        ]
    ),
)
"""Controls that change how the following frames are read: tune-ok, and those after which a started command need not
continue, or one that began on another channel may.
"""

# State of a track in its assembly, as one number: 0 is between two assemblies; otherwise the flags of the segment (the
# first two of four), its type, whether it continues, and the index of the command plus one. Unknown parts allow
# anything.
_UNKNOWN = cython.declare(cython.int, 0x80)

_KINDS = ("control", "command", "header", "body")


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _next_state(
    state: cython.int,
    flags: cython.int,
    kind: cython.int,
    track: cython.int,
    index: cython.int,
    may_go_on: cython.bint,
) -> cython.int:
    """Return the state of a track after a frame; negative if the frame may not come.

    0x0F has the flags of the previous frame, 0x30 its type, 0x40 marks a segment that continues, 0x80 a track that was
    joined in the middle, and the bits above 0xFF are the command's index plus one. `may_go_on` if the command that
    begins has, or may have, further segments.
    """
    before: cython.int
    if flags & 10 == 10:  # an assembly begins
        if state & 0x7F:
            return -1
        if kind != track:  # a control on track 0, a command on track 1
            return -2
        if flags & 5 == 5:
            return 0
        if not flags & 4 and (kind == _CONTROL or not may_go_on):
            return -3
        return flags | kind << 4 | (0 if flags & 1 else 0x40) | (index + 1) << 8
    if state == 0x80:  # joined in the middle: accept anything
        if kind != track and kind < _HEADER:
            return -2
        if flags & 5 == 5:
            return 0
        return flags | kind << 4 | (0 if flags & 1 else 0x40)
    if state == 0:
        return -4
    before = (state >> 4) & 3
    if state & 0x40:  # within a segment
        if flags & 2 or kind != before or (flags ^ state) & 12:
            return -5
    elif not flags & 2 or flags & 8 or kind <= before or kind < _HEADER:
        return -6
    if flags & 5 == 5:
        return 0
    if kind == _BODY and not flags & 4:  # nothing follows a body
        return -7
    return flags | kind << 4 | (0 if flags & 1 else 0x40) | (state & ~0xFF)


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def next_state(
    state: cython.int,
    flags: cython.int,
    kind: cython.int,
    track: cython.int,
    index: cython.int,
    may_go_on: cython.bint,
) -> cython.int:
    """Like `_next_state`, for the pump, which is compiled from other modules."""
    return _next_state(state, flags, kind, track, index, may_go_on)


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class FrameReader(FrameInput):
    """One direction of a connection: reads bytes, and returns complete frames in the order that each track allows.

    `want` with `content` selects headers, bodies, and further pieces of commands; further pieces of controls are
    returned with the first. Frames of unknown methods are always returned.

    With a `quantum`, no `feed` returns more frames than that. With `is_midstream`, each track may begin within an
    assembly.
    """

    def __init__(
        self,
        tally: Tally | None = None,
        *,
        frame_max: int = FRAME_MIN_SIZE,
        offset: int = 0,
        is_midstream: bool = False,
    ) -> None:
        super().__init__(UNCOUNTED if tally is None else tally, offset)
        self.error: ProtocolError | None = None
        self._states: dict[int, int] = {}
        self._track = -1
        self._state = 0
        self._fresh = 0x80 if is_midstream else 0
        self.channel_max = MAX_CHANNEL
        self.set_frame_max(frame_max)
        self.want(EVERY_METHOD, content=True)

    def set_frame_max(self, frame_max: int) -> None:
        """Limit frames to `frame_max` bytes from now on; with 0, only their 16-bit size limits them.

        The reader applies the limits of a tune-ok in its stream by itself.
        """
        self.frame_max = frame_max
        self._frame_max = frame_max if 0 < frame_max < MAX_FRAME else MAX_FRAME

    def set_channel_max(self, channel_max: int) -> None:
        """Limit channel numbers to `channel_max` from now on; 0 means unlimited."""
        self.channel_max = channel_max if 0 < channel_max < MAX_CHANNEL else MAX_CHANNEL

    @property
    def is_mid_assembly(self) -> bool:
        """Whether any track has an incomplete assembly."""
        return bool(self._state & 0x7F) or any(state & 0x7F for state in self._states.values())

    @property
    def open_tracks(self) -> set[tuple[int, int]]:
        """Return the tracks with an incomplete assembly, by channel and track number."""
        states = dict(self._states)
        states[self._track] = self._state
        return {(track >> 1, track & 1) for track, state in states.items() if track >= 0 and state & 0x7F}

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        frames: list,  # type: ignore[type-arg]
    ) -> cython.Py_ssize_t:
        """Process the complete frames in `data` from `start` on; return the place where they end."""
        p: cython.p_const_uchar = data
        wants: cython.p_const_uchar = self._wants
        index_of: cython.p_const_uchar = _INDEX_OF
        segments: cython.p_const_uchar = _SEGMENTS
        turns: cython.p_const_uchar = _TURNS
        carries: cython.p_const_uchar = _CARRIES_CONTENT
        frames_seen: cython.ulonglong[::1] = self.tally._frames  # type: ignore[type-arg, valid-type, assignment]
        bytes_seen: cython.ulonglong[::1] = self.tally._byte_counts  # type: ignore[type-arg, valid-type, assignment]
        position: cython.Py_ssize_t = start
        base: cython.longlong = self.offset - start
        size: cython.Py_ssize_t
        flags: cython.int
        kind: cython.int
        channel: cython.int
        track: cython.int
        index: cython.int
        slot: cython.int
        state: cython.int
        may_go_on: cython.bint
        is_wanted: cython.bint
        frame: Frame
        zero_copy: cython.bint = self.zero_copy
        piece: bytes = b""
        piece_start: cython.Py_ssize_t = start
        piece_end: cython.Py_ssize_t = start
        handed_over: cython.Py_ssize_t = 0
        frame_max: cython.Py_ssize_t = self._frame_max
        channel_max: cython.int = self.channel_max
        quantum: cython.Py_ssize_t = self.quantum or length  # the input is too short for a pause
        while True:
            if length - position < 12:
                if length - position < 4:
                    self._missing = 4 - (length - position)
                    return position
                if self._begins_malformed(p, position):  # an error may be known before the frame is complete
                    self._fail(self._flaw(data[position:length], base + position))
                    return position
                self._missing = 12 - (length - position)
                return position
            flags = p[position]
            kind = p[position + 1]
            size = p[position + 2] << 8 | p[position + 3]
            channel = p[position + 6] << 8 | p[position + 7]
            if (
                flags > 15
                or kind > 3
                or size < 12
                or size > frame_max
                or p[position + 4]
                or p[position + 5] > 1
                or p[position + 8] | p[position + 9] | p[position + 10] | p[position + 11]
                or channel > channel_max
            ):
                self._fail(self._flaw(data[position : position + 12], base + position))
                return position
            if length - position < size:
                self._missing = size - (length - position)
                return position
            index = -1
            if kind <= _COMMAND and flags & 2 and size >= 14:
                index = index_of[p[position + 12] << 8 | p[position + 13]]
                if index == 255 or segments[index] != kind:
                    index = -1
            track = channel << 1 | p[position + 5]
            if track != self._track:
                self._turn_to(track)
            may_go_on = index < 0 or carries[index] != 0
            state = _next_state(self._state, flags, kind, p[position + 5], index, may_go_on)
            if state < 0:
                self._fail(self._out_of_order(state, kind, channel, base + position))
                return position
            if kind >= _HEADER:
                slot = (self._state >> 8) - 1
                is_wanted = self._wants_content
                slot = slot + (kind - 1) * _METHOD_COUNT if slot >= 0 else 3 * _METHOD_COUNT + kind
            elif index >= 0:
                slot = index
                is_wanted = wants[index] != 0
            else:
                # A further piece of a command, or of an unknown one.
                slot = (self._state >> 8) - 1 if not flags & 2 else -1
                is_wanted = self._wants_content or slot < 0 or (kind == _CONTROL and wants[slot] != 0)
                if slot < 0:
                    slot = 3 * _METHOD_COUNT + kind
            self._state = state
            frames_seen[slot] += 1  # type: ignore[index]
            bytes_seen[slot] += size  # type: ignore[index]
            self.frames += 1
            if is_wanted:
                frame = Frame._blank()
                if zero_copy:
                    frame._buffer = data
                    frame._start = position
                    frame._end = position + size
                else:
                    if position + size > piece_end:
                        piece_start = position
                        piece_end = min(length, position + max(size, _PIECE))
                        piece = p[piece_start:piece_end]
                    frame._buffer = piece
                    frame._start = position - piece_start
                    frame._end = position + size - piece_start
                frame.offset = base + position
                frame.flags = flags
                frame.kind = kind
                frame.track = p[position + 5]
                frame.channel = channel
                frame.index = index
                frame.is_in_order = True
                frames.append(frame)
                handed_over += 1
            if index >= 0 and turns[index]:
                if index == _TUNE_OK:
                    self._tune(data, position + 12, position + size)
                    frame_max = self._frame_max
                    channel_max = self.channel_max
                else:
                    self._states[channel << 1 | 1] = _UNKNOWN
            position += size
            if handed_over >= quantum and position < length:
                self.is_paused = True
                return position

    @cython.cfunc
    @cython.exceptval(check=False)
    def _begins_malformed(self, p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
        """Whether the first 4 bytes of a frame header are malformed."""
        size: cython.int = p[at + 2] << 8 | p[at + 3]
        return p[at] > 15 or p[at + 1] > 3 or size < 12 or size > self._frame_max

    def _flaw(self, header: bytes, offset: int) -> ProtocolError:
        """Return the error of a malformed frame header."""
        size = int.from_bytes(header[2:4])
        if header[0] > 15:
            error = FramingError(f"flags of 0x{header[0]:02x}, where the high four bits are 0", offset=offset)
        elif header[1] > 3:
            error = FramingError(f"a frame of type {header[1]}", offset=offset + 1)
        elif size < 12:
            error = FramingError(f"a frame of {size} bytes, of which its header has 12", offset=offset + 2)
        elif size > self._frame_max:
            error = FramingError(f"a frame of {size} bytes, where {self._frame_max} are allowed", offset=offset + 2)
        elif header[4] or any(header[8:12]):
            error = FramingError("a reserved byte of a frame's header that is not 0", offset=offset)
        elif header[5] > 1:
            error = FramingError(f"a frame on track {header[5]}", offset=offset + 5)
        else:
            channel = int.from_bytes(header[6:8])
            error = FramingError(f"a frame on channel {channel} of {self.channel_max}", offset=offset + 6)
            error.channel = channel
        return error

    def _out_of_order(self, fault: int, kind: int, channel: int, offset: int) -> ProtocolError:
        """Return the error for a frame that may not come now; the order of the session is unknown afterwards."""
        what = _KINDS[kind]
        text = {
            -1: f"a {what} begins before the one before it has ended",
            -2: f"a {what} on the track of the others" if kind < HEADER else f"an assembly that begins with a {what}",
            -3: f"a {what} that has segments behind it, and carries no content",
            -4: f"a {what} frame that is the first of its track and not of an assembly",
            -5: f"a {what} frame that does not belong to the segment before it, which goes on",
            -6: f"a {what} segment that may not follow the one before it",
            -7: "a body that is not the last segment",
        }[fault]
        return FramingError(text, channel=channel, offset=offset)

    def _fail(self, error: ProtocolError) -> None:
        self.error = error

    @cython.cfunc
    @cython.returns(cython.void)
    def _turn_to(self, track: cython.int) -> None:
        """Save the state of the current track, and load that of another one."""
        if self._track >= 0 and self._state != self._fresh:
            self._states[self._track] = self._state
        self._track = track
        self._state = self._fresh
        if self._states:
            self._state = self._states.pop(track, self._fresh)

    def _tune(self, data: bytes, start: int, end: int) -> None:
        """Apply the negotiated limits; a malformed tune-ok is left to the owner, who receives it."""
        try:
            tune_ok = decode_method(CONTROL, data[start:end])
        except ProtocolError:
            return
        self.set_frame_max(tune_ok.max_frame_size or 0)
        self.set_channel_max(tune_ok.channel_max or 0)
