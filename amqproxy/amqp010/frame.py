"""One frame: bytes to `Frame`, and back (section 4.4.3).

A `Frame` is a complete frame found by a `FrameReader`; it is decoded on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# All classes must exist before they are looked up.
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
"""Bytes of a frame besides its payload, all in front of it."""

FRAME_MIN_SIZE = 4096
"""Smallest max-frame-size that peers may negotiate, and the limit before negotiation (MIN-MAX-FRAME-SIZE)."""

MAX_FRAME = 65_535
"""Largest possible frame: its size has 16 bits."""

# Constants of the decoder as C variables.
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
    """Return the table of control and command indexes, at 256 times the class code plus its own; 255 for unknown
    ones.
    """
    table = bytearray([0xFF]) * (256 * 256)
    for number, cls in METHODS.items():
        table[number] = cls.index
    return bytes(table)


_INDEX_OF = cython.declare(bytes, index_table())

# Consecutive transfers of a session tend to have identical commands and headers.
_TRANSFERS = cython.declare(DecodeCache, DecodeCache())
_HEADERS = cython.declare(DecodeCache, DecodeCache())
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 160)
_TRANSFER = cython.declare(cython.int, commands.MessageTransfer.index)


def encode_frame(flags: int, kind: int, channel: int, payload: bytes) -> bytes:
    """Return the bytes of a frame on the track of its type; raise `OverflowError` if it is too large."""
    return encode_frame_head(flags, kind, channel, len(payload)) + payload


def encode_frame_head(flags: int, kind: int, channel: int, size: int) -> bytes:
    """Return the frame header for a payload of `size` bytes."""
    track = CONTROL_TRACK if kind == CONTROL else COMMAND_TRACK
    size_of_frame = (size + OVERHEAD).to_bytes(2)
    return b"%c%c%b\x00%c%b\x00\x00\x00\x00" % (flags, kind, size_of_frame, track, channel.to_bytes(2))


def encode_segment(flags: int, kind: int, channel: int, payload: bytes, frame_max: int = MAX_FRAME) -> bytes:
    """Return the frames of a segment, each of at most `frame_max` bytes; `flags` are its position in its assembly."""
    step = (frame_max or MAX_FRAME) - OVERHEAD
    if len(payload) <= step:
        return encode_frame(flags | WHOLE_SEGMENT, kind, channel, payload)
    frames = []
    for start in range(0, len(payload), step):
        here = flags | (FIRST_FRAME if start == 0 else 0) | (LAST_FRAME if start + step >= len(payload) else 0)
        frames.append(encode_frame(here, kind, channel, payload[start : start + step]))
    return b"".join(frames)


def encode_method(channel: int, method: Method, frame_max: int = MAX_FRAME) -> bytes:
    """Return the frames of a control, or of a command without header and body."""
    return encode_segment(FIRST_SEGMENT | LAST_SEGMENT, method.segment, channel, method.encode(), frame_max)


def decode_method(kind: int, data: bytes) -> Any:
    """Return the control or command whose segment is `data`.

    Raise `CommandInvalid` or `IllegalArgument` for a malformed command, `FramingError` for a malformed control, with
    the place in `data` as its offset.
    """
    try:
        return _decode_method(kind, data, 0, len(data))
    except ProtocolError as error:
        raise _of_kind(error, kind, data, 0, len(data)) from None


def _of_kind(error: ProtocolError, kind: int, data: bytes, start: int, end: int) -> ProtocolError:
    """Return the error for a method in `data[start:end]`, with its codes; for a control, a `FramingError`."""
    if kind == CONTROL:
        error = FramingError(error.text, channel=error.channel, offset=error.offset, field_index=error.field_index)
    error.class_code, error.method_code = (*data[start : min(start + 2, end)], 0, 0)[:2]
    return error


@cython.cfunc
def _decode_method(kind: cython.int, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
    p: cython.p_const_uchar = data
    index_of: cython.p_const_uchar = _INDEX_OF
    segments: cython.p_const_uchar = _SEGMENTS
    index: cython.int
    decoder: StructDecoder
    if end - start < 2:
        raise CommandInvalid(f"a {_NAMES[kind]} of {end - start} bytes", offset=start)
    index = index_of[p[start] << 8 | p[start + 1]]
    if index == 255 or segments[index] != kind:
        text = f"there is no {_NAMES[kind]} 0x{p[start]:02x}{p[start + 1]:02x}"
        raise CommandInvalid(text, offset=start)
    decoder = _DECODERS[index]
    if kind == _CONTROL:
        return decoder._made(data, start + 2, end, 0, 0)
    if end - start < 4 or p[start + 2] != 1 or p[start + 3] > 1:
        raise CommandInvalid("a session header that is malformed", offset=start + 2)
    return decoder._of_command(data, start + 4, end, 0, 0, p[start + 3] == 1)


def decode_header(data: bytes) -> Header:
    """Return the header whose segment is `data`; raise `ProtocolError` if malformed, or with duplicate structs."""
    return Header(decode_structs(data))


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.auto_pickle(True)
@cython.cclass
class Frame:
    """One complete received frame: `raw` is its bytes, `offset` their position in the stream.

    `kind` is CONTROL, COMMAND, HEADER or BODY: the type of its segment. `flags` are its position in the segment and in
    the assembly, `track` is its track. `index` is the index of the control or command that begins in it, or -1 if none
    does or it is unknown. It is decoded on first use. `is_in_order` if the reader has already checked it against the
    frames before it on its track. The last `lost` bytes of the payload are unknown, as in a capture of truncated
    packets, and are zeros here.
    """

    # Its bytes are those of `_buffer` from `_start` to `_end`: a copy, or the input of a zero-copy reader.

    def __init__(self, raw: bytes, offset: int = 0, lost: int = 0) -> None:
        """`raw` must be one complete frame that a `FrameReader` would pass."""
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
        """Return a blank frame for a reader; compiled code of another module takes twice as long to create one."""
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
        """Return the payload without its lost part."""
        return self.payload_bytes()[: self.size - self.lost]

    def payload_bytes(self) -> bytes:
        """Return the payload; for compiled callers."""
        p: cython.p_const_uchar = self._buffer
        return p[self._start + 12 : self._end]

    def length(self) -> cython.Py_ssize_t:
        """Return the size of the frame in bytes; for compiled callers."""
        return self._end - self._start

    @property
    def size(self) -> int:
        """Size of the payload in bytes."""
        return self._end - self._start - OVERHEAD

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
        """Name of the control or command; for other and unknown frames, the name of their type."""
        return str(BY_INDEX[self.index].name) if self.index >= 0 else _NAMES[self.kind]

    @property
    def method(self) -> Any:
        """Decoded control or command; raises `ProtocolError` if malformed.

        Only for a frame that holds a whole segment; for several frames, use an `Assembly`.
        """
        return self._decoded if self._decoded is not None else self._decode_whole_method()

    @property
    def header(self) -> Any:
        """Decoded `Header`; raises `ProtocolError` if malformed. Only for a frame that holds a whole segment."""
        return self._decoded if self._decoded is not None else self._decode_whole_header()

    @property
    def value(self) -> Any:
        """Decoded content of the frame: a `Method`, a `Header`, or the bytes of a body or of a piece of a segment.

        Raises `ProtocolError` if malformed.
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
            self._decoded = _decode_method(self.kind, self._buffer, start, self._end)
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
        """Set the channel and the stream offset of an error found in `_buffer`."""
        error.channel = self.channel
        error.offset = self.offset + (error.offset or 0) - self._start

    def __repr__(self) -> str:
        flags = "".join(letter if self.flags & bit else "-" for letter, bit in zip("BEbe", (8, 4, 2, 1), strict=True))
        return f"<Frame {self.name} {flags} channel={self.channel} size={self.size} offset={self.offset}>"


def chosen(frames: Sequence[Frame], methods: bytes) -> list[Frame]:
    """Return the frames that begin a method with a 1 at its index in `methods`, or belong to an unknown control."""
    wanted: cython.p_const_uchar = methods
    frame: Frame
    found: list[Frame] = []
    for frame in frames:
        if frame.kind <= _COMMAND and (wanted[frame.index] if frame.index >= 0 else frame.kind == _CONTROL):
            found.append(frame)
    return found
