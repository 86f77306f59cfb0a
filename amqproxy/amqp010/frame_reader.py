"""Bytes to frames, in the order that assemblies allow (sections 4.4.1 and 4.4.3).

A `FrameReader` is one direction of one connection. It takes bytes as they come and finds the whole frames in them; its
owner chooses the frames that are handed over as `Frame`s. The others are checked and counted in place: no object is
made of them.
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
from amqproxy.amqp010.tally import METHOD_COUNT, Tally

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

EVERY_METHOD = bytes([1]) * METHOD_COUNT

MAX_CHANNEL = 65_535

# What the loop over the frames needs, as C sees it.
_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_PIECE = cython.declare(cython.Py_ssize_t, 448)
"""Bytes of what was fed that small frames share, where they do not share all of it."""

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
"""Controls that change how the frames after them are read: tune-ok, and those after which no command need go on that
has begun, and one may go on that began on another channel."""

# Where a track is in its assembly, as one number: 0 is between two, and then the flags of the segment (the first two of
# four), its type, whether it goes on, and the index of the command, plus one. What is not known allows for anything.
_GOES_ON = cython.declare(cython.int, 0x40)
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
    """The state of a track behind a frame; negative where the frame may not come.

    0x0F has the flags of the frame before, 0x30 its type, 0x40 is a segment that goes on, 0x80 a track that was joined
    in the middle, and what is above 0xFF is the command's index plus one. Where a command begins that has segments
    behind it, or may have, it `may_go_on`.
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
    if state == 0x80:  # joined in the middle: believe what comes
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
    if kind == _BODY and not flags & 4:  # nothing comes after a body
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
    """The same, for the pump, which is compiled from other modules."""
    return _next_state(state, flags, kind, track, index, may_go_on)


@cython.final
@cython.cclass
class FrameReader:
    """One direction of a connection: bytes in, whole frames out, in the order that each track allows.

    After `feed`, `taken` is all the bytes of the whole frames found by it, in one piece: the very object it was given
    where that is possible. `error` is what ended the reading, once it has; the frames before it have been handed over,
    and feeding more raises it. `frames` is how many whole ones there were.

    With a `quantum`, no `feed` hands over more frames than that: it `is_paused` then, and `resume` goes on.

    Frames have copies of what was fed, small ones shared by those within some hundred bytes. Set `zero_copy` where
    frames are soon let go of: then they share the bytes that were fed, which stay for as long as one of them does, and
    only what is asked of them is copied. With `is_midstream`, each track may begin in the middle
    of an assembly.
    """

    def __init__(
        self,
        tally: Tally | None = None,
        *,
        frame_max: int = FRAME_MIN_SIZE,
        offset: int = 0,
        is_midstream: bool = False,
    ) -> None:
        self.offset = offset
        self.frames = self._frames_before = 0
        self._taken: bytes | memoryview | None = None
        self._head = b""
        self._data = b""
        self._refused = b""
        self._start = self._end = 0
        self.error: ProtocolError | None = None
        self.tally = Tally() if tally is None else tally
        self.zero_copy = False
        self.quantum = 0
        self.is_paused = False
        self._tail: bytearray | None = None
        self._missing = 0
        self._states: dict[int, int] = {}
        self._track = -1
        self._state = 0
        self._fresh = 0x80 if is_midstream else 0
        self.channel_max = MAX_CHANNEL
        self.set_frame_max(frame_max)
        self.want(EVERY_METHOD, content=True)

    def set_frame_max(self, frame_max: int) -> None:
        """Bound frames to `frame_max` bytes from here on; 0 is no bound but that of their size, which is in 16 bits.

        The reader takes the limits of a tune-ok that it comes by itself.
        """
        self.frame_max = frame_max
        self._frame_max = frame_max if 0 < frame_max < MAX_FRAME else MAX_FRAME

    def set_channel_max(self, channel_max: int) -> None:
        """Bound channel numbers to `channel_max` from here on; 0 is no bound."""
        self.channel_max = channel_max if 0 < channel_max < MAX_CHANNEL else MAX_CHANNEL

    def want(self, methods: bytes, *, content: bool) -> None:
        """Choose the frames to hand over: `methods` holds a 1 at the index of each control and command that is wanted;
        `content` is for headers, bodies, and pieces of commands behind the first; those of controls go with the first.
        What is not known is always handed over.
        """
        self._wants = methods
        self._wants_content = content

    def forget_channel(self, channel: int) -> None:
        """Let both tracks of a channel begin anew, as where its session ends in the middle of a command."""
        for track in (channel << 1, channel << 1 | 1):
            self._states.pop(track, None)
            if track == self._track:
                self._state = 0

    def skip(self, size: int, frames: int = 0) -> None:
        """Count bytes that were read elsewhere, as a protocol header is, into `offset`; and whole frames."""
        self.offset += size
        self.frames += frames

    @property
    def is_mid_assembly(self) -> bool:
        """Is there a track whose assembly has begun and not ended?"""
        return bool(self._state & 0x7F) or any(state & 0x7F for state in self._states.values())

    @property
    def open_tracks(self) -> set[tuple[int, int]]:
        """The tracks whose assembly has begun and not ended: each by its channel and its number there."""
        states = dict(self._states)
        states[self._track] = self._state
        return {(track >> 1, track & 1) for track, state in states.items() if track >= 0 and state & 0x7F}

    @property
    def held(self) -> bytes:
        """The bytes held because the frame that they begin is not whole yet."""
        return b"" if self._tail is None else bytes(self._tail)

    @property
    def held_size(self) -> int:
        """How many those are."""
        return 0 if self._tail is None else len(self._tail)

    def feed(self, data: bytes) -> list[Frame]:
        """Take the bytes that came next; return the wanted frames that are now whole.

        Where it `is_paused` after that, `quantum` of them have been handed over; what is behind them has not been
        looked at.
        """
        self._check()
        frames: list[Frame] = []
        if self.is_paused:
            self.is_paused = False
            data = self._data[self._end :] + data
        length: cython.Py_ssize_t = len(data)
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        self._frames_before = self.frames
        self._head = b""
        self._data = data
        self._taken = None
        tail = self._tail
        # A frame of which a part came before is put together by itself, so that the rest can stay where it is.
        while tail is not None:
            if length - start < self._missing:
                tail += memoryview(data)[start:]
                self._missing -= length - start
                self._start = self._end = length
                return frames
            tail += memoryview(data)[start : start + self._missing]
            start += self._missing
            self._head = bytes(tail)
            end = self._scan(self._head, 0, len(self._head), frames)
            self.offset += end
            if end == 0 and self.error is None:
                self._head = b""  # only now is it known how long it is
                continue
            self._tail = tail = None
        self._start = self._end = start
        if self.error is None:
            self._scan_on(frames)
        else:
            self._refused = self._head[end:]
            self._head = self._head[:end]
            self._refused += data[self._end :]
        return frames

    def resume(self) -> list[Frame]:
        """The wanted frames that come next of what was fed last; none unless it is paused."""
        self._check()
        frames: list[Frame] = []
        self._frames_before = self.frames
        self._head = b""
        self._taken = None
        self._start = self._end
        if self.is_paused:
            self.is_paused = False
            self._scan_on(frames)
        return frames

    @cython.cfunc
    def _scan_on(self, frames: list) -> object:  # type: ignore[type-arg]
        """Go over what was fed from `_end` on, up to the end or a pause."""
        data: bytes = self._data
        start: cython.Py_ssize_t = self._end
        length: cython.Py_ssize_t = len(data)
        end: cython.Py_ssize_t = self._scan(data, start, length, frames)
        self.offset += end - start
        self._end = end
        if self.error is not None:
            self._refused += data[end:]
        elif end < length and not self.is_paused:
            self._tail = bytearray(memoryview(data)[end:])
        return None

    def _check(self) -> None:
        """Nothing is read after an error, which is raised again."""
        if self.error is not None:
            raise self.error

    @property
    def taken(self) -> bytes | memoryview:
        if self._taken is None:
            if self._head:
                self._taken = b"".join((self._head, memoryview(self._data)[self._start : self._end]))
            elif self._start:
                self._taken = b"" if self._start == self._end else memoryview(self._data)[self._start : self._end]
            elif self._end == len(self._data):
                self._taken = self._data
            else:
                self._taken = memoryview(self._data)[: self._end]
        return self._taken

    @property
    def taken_from(self) -> int:
        """Where `taken` lies."""
        return self.offset - len(self._head) - (self._end - self._start)

    @property
    def taken_frames(self) -> int:
        """How many frames are in `taken`."""
        return self.frames - self._frames_before

    def between(self, start: int, end: int) -> bytes | memoryview:
        """The bytes from one offset to another, both of which are bounds of frames in `taken`."""
        origin = self.taken_from
        taken = self.taken
        return taken if end - start == len(taken) else taken[start - origin : end - origin]

    @property
    def refused(self) -> bytes:
        """What was fed from the frame on that ended the reading."""
        return self._refused

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        frames: list,  # type: ignore[type-arg]
    ) -> cython.Py_ssize_t:
        """Go over the whole frames in `data` from `start` on; the place where they end."""
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
        quantum: cython.Py_ssize_t = self.quantum or length  # of so few bytes there are never so many frames
        while True:
            if length - position < 12:
                if length - position < 4:
                    self._missing = 4 - (length - position)
                    return position
                if self._begins_malformed(p, position):  # what is wrong may be known before all of it has come
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
                # A piece of a command behind the first, or of one that is not known.
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
        """Is there anything wrong with a header, of which the first 4 bytes are known?"""
        size: cython.int = p[at + 2] << 8 | p[at + 3]
        return p[at] > 15 or p[at + 1] > 3 or size < 12 or size > self._frame_max

    def _flaw(self, header: bytes, offset: int) -> ProtocolError:
        """What is wrong with a header that is malformed."""
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
        """The error for a frame that may not come now; the session is no longer known to be in order."""
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
        """Keep the state of the track that frames came on, and have that of another one."""
        if self._track >= 0 and self._state != self._fresh:
            self._states[self._track] = self._state
        self._track = track
        self._state = self._fresh
        if self._states:
            self._state = self._states.pop(track, self._fresh)

    def _tune(self, data: bytes, start: int, end: int) -> None:
        """Take the limits that peers agree on; what is malformed is up to the owner, who is handed it."""
        try:
            tune_ok = decode_method(CONTROL, data, start, end)
        except ProtocolError:
            return
        self.set_frame_max(tune_ok.max_frame_size or 0)
        self.set_channel_max(tune_ok.channel_max or 0)
