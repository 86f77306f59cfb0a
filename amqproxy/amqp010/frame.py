"""One frame: bytes to `Frame`, and back (section 4.4.3).

A `Frame` is what a `FrameReader` found whole; it is decoded when it is asked what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# All of them have to be there before they are looked up.
from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.domains import SegmentType, Track
from amqproxy.amqp010.errors import CommandInvalid, FramingError, ProtocolError
from amqproxy.amqp010.methods import BY_INDEX, METHODS, Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.wire import StructDecoder, decode_structs
from amqproxy.compiled.decode_cache import DecodeCache

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.amqp010.wire import _is_once_only, _structs

DEFINED = (controls, commands)

CONTROL, COMMAND, HEADER, BODY = map(int, SegmentType)
CONTROL_TRACK, COMMAND_TRACK = map(int, Track)

FIRST_SEGMENT, LAST_SEGMENT, FIRST_FRAME, LAST_FRAME = 8, 4, 2, 1
WHOLE_SEGMENT = FIRST_FRAME | LAST_FRAME
WHOLE_ASSEMBLY = FIRST_SEGMENT | LAST_SEGMENT | WHOLE_SEGMENT

OVERHEAD = 12
"""Bytes of a frame that are not payload, all of them before it."""

FRAME_MIN_SIZE = 4096
"""The least max-frame-size that peers may agree on, and all that may be sent before they do (MIN-MAX-FRAME-SIZE)."""

MAX_FRAME = 65_535
"""The largest frame there is: its size is in 16 bits."""

# What decoding needs, as C sees it.
_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_WHOLE_SEGMENT = cython.declare(cython.int, WHOLE_SEGMENT)
_DECODERS = cython.declare(tuple, tuple(cls.decoder for cls in BY_INDEX))
_SEGMENTS = cython.declare(bytes, bytes([cls.segment for cls in BY_INDEX]))
_HEADER_DECODER = cython.declare(StructDecoder, StructDecoder(Header, b"\xa9", 4))  # type: ignore[arg-type]

_NAMES = ("control", "command", "header", "body")


def index_table() -> bytes:
    """The index of each control and command at 256 times its class's code plus its own; 255 where there is none."""
    table = bytearray([0xFF]) * (256 * 256)
    for number, cls in METHODS.items():
        table[number] = cls.index
    return bytes(table)


_INDEX_OF = cython.declare(bytes, index_table())

# A session's transfers and their headers tend to be alike, to the byte.
_TRANSFERS = cython.declare(DecodeCache, DecodeCache())
_HEADERS = cython.declare(DecodeCache, DecodeCache())
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 160)
_TRANSFER = cython.declare(cython.int, commands.MessageTransfer.index)


def encode_frame(flags: int, kind: int, channel: int, payload: bytes) -> bytes:
    """A frame's bytes; its track is that of its type. `OverflowError` where it is too large."""
    return encode_frame_head(flags, kind, channel, len(payload)) + payload


def encode_frame_head(flags: int, kind: int, channel: int, size: int) -> bytes:
    """What comes before a payload of `size` bytes."""
    track = CONTROL_TRACK if kind == CONTROL else COMMAND_TRACK
    size_of_frame = (size + OVERHEAD).to_bytes(2)
    return b"%c%c%b\x00%c%b\x00\x00\x00\x00" % (flags, kind, size_of_frame, track, channel.to_bytes(2))


def encode_segment(flags: int, kind: int, channel: int, payload: bytes, frame_max: int = MAX_FRAME) -> bytes:
    """The frames of a segment, none of them over `frame_max` bytes; `flags` are those of its place in its assembly."""
    step = (frame_max or MAX_FRAME) - OVERHEAD
    if len(payload) <= step:
        return encode_frame(flags | WHOLE_SEGMENT, kind, channel, payload)
    frames = []
    for start in range(0, len(payload), step):
        here = flags | (FIRST_FRAME if start == 0 else 0) | (LAST_FRAME if start + step >= len(payload) else 0)
        frames.append(encode_frame(here, kind, channel, payload[start : start + step]))
    return b"".join(frames)


def encode_method(channel: int, method: Method, frame_max: int = MAX_FRAME) -> bytes:
    """The frames of a control, or of a command that has neither a header nor a body."""
    return encode_segment(FIRST_SEGMENT | LAST_SEGMENT, method.segment, channel, method.encode(), frame_max)


def decode_method(kind: int, data: bytes, start: int, end: int, offset: int = 0) -> Any:
    """The control or command whose segment is `data[start:end]`.

    `CommandInvalid` or `IllegalArgument` where a command is malformed, `FramingError` where a control is: its offset is
    `offset` plus the place in `data`.
    """
    try:
        return _decode_method(kind, data, start, end, offset)
    except ProtocolError as error:
        raise _of_kind(error, kind, data, start, end) from None


def _of_kind(error: ProtocolError, kind: int, data: bytes, start: int, end: int) -> ProtocolError:
    """The error for a method in `data[start:end]`, which names it: for a control, a `FramingError`."""
    if kind == CONTROL:
        error = FramingError(error.text, channel=error.channel, offset=error.offset, field_index=error.field_index)
    error.class_code, error.method_code = (*data[start : min(start + 2, end)], 0, 0)[:2]
    return error


@cython.cfunc
def _decode_method(
    kind: cython.int,
    data: bytes,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    offset: cython.longlong,
) -> object:
    p: cython.p_const_uchar = data
    index_of: cython.p_const_uchar = _INDEX_OF
    segments: cython.p_const_uchar = _SEGMENTS
    index: cython.int
    decoder: StructDecoder
    if end - start < 2:
        raise CommandInvalid(f"a {_NAMES[kind]} of {end - start} bytes", offset=offset + start)
    index = index_of[p[start] << 8 | p[start + 1]]
    if index == 255 or segments[index] != kind:
        text = f"there is no {_NAMES[kind]} 0x{p[start]:02x}{p[start + 1]:02x}"
        raise CommandInvalid(text, offset=offset + start)
    decoder = _DECODERS[index]
    if kind == _CONTROL:
        return decoder._made(data, start + 2, end, 0, offset)
    if end - start < 4 or p[start + 2] != 1 or p[start + 3] > 1:
        raise CommandInvalid("a session header that is malformed", offset=offset + start + 2)
    return decoder._of_command(data, start + 4, end, 0, offset, p[start + 3] == 1)


def decode_header(data: bytes, start: int, end: int, offset: int = 0) -> Header:
    """The header whose segment is `data[start:end]`; `ProtocolError` where it is malformed, or has a struct twice."""
    return Header(decode_structs(data, start, end, offset))


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class Frame:
    """One whole frame as it was received: `raw` is all its bytes, `offset` where they lay.

    `kind` is CONTROL, COMMAND, HEADER or BODY: the type of the segment of which it holds a piece. `flags` are its place
    in that and in its assembly, `track` the one it came on. `index` is the small number of the control or command that
    begins in it, or -1 if none does or it is not known. Nothing is decoded before it is asked for. `is_in_order` says
    that the reader has checked it against those before it on its track. So many bytes at the end of its payload as
    `lost` says are not known, as in a capture of truncated packets, and are zeros here.
    """

    # Its bytes are those of `_buffer` from `_start` to `_end`: all there are, or what a zero-copy reader was fed.

    def __init__(self, raw: bytes, offset: int = 0, lost: int = 0) -> None:
        """`raw` must be one whole frame that a `FrameReader` would pass."""
        self._buffer = raw
        self._start = 0
        self._end = len(raw)
        self.offset = offset
        self.lost = lost
        self.flags = raw[0] & 15
        self.kind = raw[1]
        self.track = raw[5] & 15
        self.channel = raw[6] << 8 | raw[7]
        self.index = -1
        if self.kind <= COMMAND and raw[0] & FIRST_FRAME and len(raw) >= 14:
            method = METHODS.get(raw[12] << 8 | raw[13])
            if method is not None and method.segment == self.kind:
                self.index = method.index
        self.is_in_order = False
        self._decoded: Any = None

    @staticmethod
    @cython.cfunc
    def _blank() -> Frame:
        """One for a reader to fill in; made here, since in another module C would take twice as long to make it."""
        if cython.compiled:
            return Frame.__new__(Frame)
        frame = Frame.__new__(Frame)
        frame._decoded = None
        frame.lost = 0
        return frame

    @property
    def raw(self) -> bytes:
        return self._raw()

    @cython.cfunc
    def _raw(self) -> bytes:
        data = self._buffer
        if self._end - self._start != len(data):
            data = data[self._start : self._end]
            self._buffer = data
            self._start = 0
            self._end = len(data)
        return data

    @property
    def payload(self) -> bytes:
        return self.payload_bytes()

    @property
    def known_payload(self) -> bytes:
        """The payload without what of it is lost."""
        return self.payload_bytes()[: self.size - self.lost]

    def payload_bytes(self) -> bytes:
        """The payload; for callers that are compiled."""
        p: cython.p_const_uchar = self._buffer
        return p[self._start + 12 : self._end]

    def length(self) -> cython.Py_ssize_t:
        """How many bytes it is, all in all; for callers that are compiled."""
        return self._end - self._start

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self._end - self._start - OVERHEAD

    @property
    def is_first_segment(self) -> bool:
        return self.flags & 8 != 0

    @property
    def is_last_segment(self) -> bool:
        return self.flags & 4 != 0

    @property
    def is_first_frame(self) -> bool:
        return self.flags & 2 != 0

    @property
    def is_last_frame(self) -> bool:
        return self.flags & 1 != 0

    @property
    def begins_assembly(self) -> bool:
        return self.flags & 10 == 10

    @property
    def ends_assembly(self) -> bool:
        return self.flags & 5 == 5

    @property
    def is_whole_segment(self) -> bool:
        return self.flags & 3 == 3

    @property
    def name(self) -> str:
        """The control's or command's name; for other frames, and for those that are not known, that of their type."""
        return str(BY_INDEX[self.index].name) if self.index >= 0 else _NAMES[self.kind]

    @property
    def method(self) -> Any:
        """The control or command, decoded; `ProtocolError` when it is malformed.

        Only of a frame that holds the whole segment: an `Assembly` has it of more than one.
        """
        return self._decoded if self._decoded is not None else self._decode_whole_method()

    @property
    def header(self) -> Any:
        """The `Header`, decoded; `ProtocolError` when malformed. Only of a frame that holds the whole segment."""
        return self._decoded if self._decoded is not None else self._decode_whole_header()

    @property
    def value(self) -> Any:
        """What the frame holds, decoded: a `Method`, a `Header`, or the bytes of a body or of a piece of a segment.

        `ProtocolError` when it is malformed.
        """
        if self.kind == _BODY or self.flags & _WHOLE_SEGMENT != _WHOLE_SEGMENT:
            return self.payload_bytes()
        if self._decoded is not None:
            return self._decoded
        return self._decode_whole_header() if self.kind == _HEADER else self._decode_whole_method()

    @cython.cfunc
    def _decode_whole_method(self) -> object:
        if self.kind > _COMMAND or self.flags & _WHOLE_SEGMENT != _WHOLE_SEGMENT:
            raise TypeError("a frame that holds no whole control or command")
        p: cython.p_const_uchar = self._buffer
        start: cython.Py_ssize_t = self._start + _OVERHEAD
        size: cython.Py_ssize_t = self._end - start
        is_cached: cython.bint = self.index == _TRANSFER and 0 < size <= _MAX_CACHED
        if is_cached:
            self._decoded = _TRANSFERS._find(p, start, size)
            if self._decoded is not None:
                return self._decoded
        try:
            self._decoded = _decode_method(self.kind, self._buffer, start, self._end, 0)
        except ProtocolError as error:
            self._place(error)
            raise _of_kind(error, self.kind, self._buffer, start, self._end) from None
        if is_cached:
            _TRANSFERS._keep(p, start, size, self._decoded)
        return self._decoded

    @cython.cfunc
    def _decode_whole_header(self) -> object:
        if self.kind != _HEADER or self.flags & _WHOLE_SEGMENT != _WHOLE_SEGMENT:
            raise TypeError("a frame that holds no whole header")
        p: cython.p_const_uchar = self._buffer
        start: cython.Py_ssize_t = self._start + _OVERHEAD
        size: cython.Py_ssize_t = self._end - start
        is_cached: cython.bint = 0 < size <= _MAX_CACHED and not _is_once_only(p, start, self._end)
        if is_cached:
            self._decoded = _HEADERS._find(p, start, size)
            if self._decoded is not None:
                return self._decoded
        try:
            entries = _structs(self._buffer, start, self._end, 0)
        except ProtocolError as error:
            self._place(error)
            raise
        self._decoded = _HEADER_DECODER._of_one(entries)
        if is_cached:
            _HEADERS._keep(p, start, size, self._decoded)
        return self._decoded

    def _place(self, error: ProtocolError) -> None:
        """Say where in the direction an error lies that was found in `_buffer`."""
        error.channel = self.channel
        error.offset = self.offset + (error.offset or 0) - self._start

    def __repr__(self) -> str:
        flags = "".join(letter if self.flags & bit else "-" for letter, bit in zip("BEbe", (8, 4, 2, 1), strict=True))
        return f"<Frame {self.name} {flags} channel={self.channel} size={self.size} offset={self.offset}>"


def chosen(frames: Sequence[Frame], methods: bytes) -> list[Frame]:
    """Those that begin a control or command at whose index `methods` has a 1, or are of a control that is not known."""
    wanted: cython.p_const_uchar = methods
    frame: Frame
    found: list[Frame] = []
    for frame in frames:
        if frame.kind <= _COMMAND and (wanted[frame.index] if frame.index >= 0 else frame.kind == _CONTROL):
            found.append(frame)
    return found
