"""One frame: bytes to `Frame`, and back (section 4.2.3).

A `Frame` is a complete frame found by a `FrameReader`; it is decoded on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import BY_INDEX, METHODS, BasicPublish, Method
from amqproxy.amqp091.properties import PROPERTIES, ContentHeader
from amqproxy.amqp091.wire import StructDecoder
from amqproxy.compiled.decode_cache import DecodeCache

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_long_at

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
OVERHEAD = 8
"""Bytes of a frame besides its payload: seven before it and one after."""

FRAME_MIN_SIZE = 4096
"""Smallest frame-max that peers may negotiate, and the limit before negotiation."""

# Constants of the decoder as C variables.
_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_PIECE = cython.declare(cython.Py_ssize_t, 448)
"""Size of the shared piece of input bytes that small frames refer to, unless they share the whole input."""
_METHODS = cython.declare(tuple, tuple(StructDecoder(cls, cls.layout) for cls in BY_INDEX))
_PROPERTIES = cython.declare(StructDecoder, PROPERTIES)  # type: ignore[arg-type]
_CONTENT_HEADER = cython.declare(StructDecoder, StructDecoder(ContentHeader))  # type: ignore[arg-type]


def index_table() -> bytes:
    """Return the table of method indexes, at 256 times the class id plus the method id; 255 for unknown methods."""
    table = bytearray([0xFF]) * (256 * 256)
    for cls in BY_INDEX:
        table[cls.class_id * 256 + cls.method_id] = cls.index
    return bytes(table)


_INDEX_OF = cython.declare(bytes, index_table())

# Consecutive messages of a publisher tend to have identical methods and headers.
_PUBLISH = cython.declare(cython.int, BasicPublish.index)
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 160)
_PUBLISHES = cython.declare(DecodeCache, DecodeCache())
_HEADERS = cython.declare(DecodeCache, DecodeCache())


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    return b"%c%b%b%b\xce" % (kind, channel.to_bytes(2), len(payload).to_bytes(4), payload)


def encode_method(channel: int, method: Method) -> bytes:
    """Return the bytes of the frame of `method`."""
    return encode_frame(METHOD, channel, method.encode())


HEARTBEAT_FRAME = encode_frame(HEARTBEAT, 0, b"")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_same(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, q: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the bytes from `start` on begin with `q`."""
    if not cython.compiled:
        return p.startswith(q[:size], start)
    return bool(memcmp(p + start, q, size) == 0)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.auto_pickle(True)
@cython.cclass
class Frame:
    """One complete received frame: `raw` is its bytes, `offset` their position in the stream.

    `kind` is METHOD, HEADER, BODY or HEARTBEAT; `index` is the method's index, or -1. It is decoded on first use.
    `is_in_order` if the reader has already checked the frame against its channel's content state; `ordinal` is then the
    number of contents that its direction of the channel has begun, including this frame. The last `lost` bytes of the
    payload are unknown, as in a capture of truncated packets, and are zeros here.
    """

    # Its bytes are those of `_buffer` from `_start` to `_end`: a copy, or the input of a zero-copy reader.

    def __init__(self, raw: bytes, offset: int = 0, lost: int = 0) -> None:
        """`raw` must be one complete frame that a `FrameReader` would pass."""
        self._buffer = raw
        self._start = 0
        self._end = len(raw)
        self.offset = offset
        self.lost = lost
        self.kind = raw[0]
        self.channel = raw[1] << 8 | raw[2]
        self.index = METHODS[int.from_bytes(raw[7:11])].index if self.kind == METHOD else -1
        self.is_in_order = False
        self.ordinal = 0
        self._decoded: Any = None

    @staticmethod
    @cython.cfunc
    def _blank() -> Frame:
        """Return a blank frame for a reader; made here, since C takes twice as long in another module."""
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
        return p[self._start + 7 : self._end - 1]

    def is_as(self, raw: bytes) -> bool:
        """Whether `raw` equals the bytes of the frame; compared without a copy."""
        size: cython.Py_ssize_t = len(raw)
        start: cython.Py_ssize_t = self._start
        if self._end - start != size:
            return False
        p: cython.p_const_uchar = self._buffer
        return _is_same(p, start, raw, size)

    def length(self) -> cython.Py_ssize_t:
        """Return the size of the frame in bytes; for compiled callers."""
        return self._end - self._start

    @property
    def delivery_tag(self) -> int:
        """Delivery tag at the start of a basic.ack, nack or reject, which must be complete."""
        return self.long_long_at(11)

    def long_long_at(self, place: cython.Py_ssize_t) -> cython.ulonglong:
        """Return the unsigned number in the eight bytes at `place`, which must exist."""
        p: cython.p_const_uchar = self._buffer
        return long_long_at(p, self._start + place)

    def byte_at(self, place: cython.Py_ssize_t) -> cython.int:
        """Return the byte at `place`, which must exist."""
        p: cython.p_const_uchar = self._buffer
        return p[self._start + place]

    @property
    def size(self) -> int:
        """Size of the payload in bytes."""
        return self._end - self._start - OVERHEAD

    @property
    def method(self) -> Any:
        """Decoded method of a METHOD frame; raises `ProtocolError` if its arguments are malformed."""
        return self._decoded if self._decoded is not None else self._decode_method()

    @property
    def header(self) -> Any:
        """Decoded `ContentHeader` of a HEADER frame; raises `ProtocolError` if malformed."""
        return self._decoded if self._decoded is not None else self._decode_header()

    @property
    def value(self) -> Any:
        """Decoded content of the frame: a method, a `ContentHeader`, or bytes of a body."""
        if self._decoded is not None:
            return self._decoded
        if self.kind == _METHOD:
            return self._decode_method()
        if self.kind == _HEADER:
            return self._decode_header()
        return self.payload_bytes()

    @property
    def body_size(self) -> int:
        """Body size announced in a HEADER frame."""
        return self.announced()

    def announced(self) -> cython.ulonglong:
        """Return the body size announced in a HEADER frame; for compiled callers."""
        if self._end - self._start < 19 + 1:
            return 0
        p: cython.p_const_uchar = self._buffer
        return long_long_at(p, self._start + 11)

    @cython.cfunc
    def _decode_method(self) -> object:
        if self.index < 0:
            raise TypeError("a frame that holds no method")
        p: cython.p_const_uchar = self._buffer
        start: cython.Py_ssize_t = self._start + 11
        size: cython.Py_ssize_t = self._end - 1 - start
        is_cached: cython.bint = self.index == _PUBLISH and 0 < size <= _MAX_CACHED
        if is_cached:
            self._decoded = _PUBLISHES._find(p, start, size)
            if self._decoded is not None:
                return self._decoded
        decoder: StructDecoder = _METHODS[self.index]
        try:
            self._decoded = decoder.of_fields(self._buffer, start, start + size)
        except ProtocolError as error:
            self._place(error)
            error.class_id, error.method_id = BY_INDEX[self.index].class_id, BY_INDEX[self.index].method_id
            raise
        if is_cached:
            _PUBLISHES._keep(p, start, size, self._decoded)
        return self._decoded

    @cython.cfunc
    def _decode_header(self) -> object:
        data: bytes = self._buffer
        p: cython.p_const_uchar = data
        start: cython.Py_ssize_t = self._start
        size: cython.Py_ssize_t = self._end - start - _OVERHEAD
        is_cached: cython.bint = 0 < size <= _MAX_CACHED
        if is_cached:
            self._decoded = _HEADERS._find(p, start + 7, size)
            if self._decoded is not None:
                return self._decoded
        try:
            properties = _PROPERTIES.of_flagged(data, start + 19, self._end - 1)
        except ProtocolError as error:
            self._place(error)
            raise
        self._decoded = _CONTENT_HEADER._of_four(
            long_long_at(p, start + 11),
            properties,
            p[start + 7] << 8 | p[start + 8],
            p[start + 9] << 8 | p[start + 10],
        )
        if is_cached:
            _HEADERS._keep(p, start + 7, size, self._decoded)
        return self._decoded

    def _place(self, error: ProtocolError) -> None:
        """Set the channel and the stream offset of an error found in `_buffer`."""
        error.channel = self.channel
        error.offset = self.offset + (error.offset or 0) - self._start

    def __repr__(self) -> str:
        what = BY_INDEX[self.index].name if self.kind == METHOD else f"kind={self.kind}"
        return f"<Frame {what} channel={self.channel} size={self.size} offset={self.offset}>"


class CountsContents(Protocol):
    """Counter of the contents that one direction of a channel has begun, such as a reader's `ContentState`."""

    @property
    def contents(self) -> int: ...


def every_frame(
    data: bytes,
    offset: int,
    content_states: Mapping[int, CountsContents] | None = None,
    is_in_order: bool = True,
    zero_copy: bool = False,
) -> list[Frame]:
    """Return all frames in `data`, which are complete and checked; they are at `offset` in the stream.

    `content_states` have the number of contents begun at their end, for the ordinals of the frames. With `zero_copy`,
    each frame keeps all of `data` alive: for short-lived frames.
    """
    frames: list[Frame] = []
    frame: Frame
    p: cython.p_const_uchar = data
    base: cython.longlong = offset
    are_in_order: cython.bint = is_in_order
    are_in_place: cython.bint = zero_copy
    index_of: cython.p_const_uchar = _INDEX_OF
    length: cython.Py_ssize_t = len(data)
    position: cython.Py_ssize_t = 0
    whole: cython.Py_ssize_t
    piece: bytes = b""
    piece_start: cython.Py_ssize_t = 0
    piece_end: cython.Py_ssize_t = 0
    while position < length:
        whole = cython.cast(cython.Py_ssize_t, p[position + 3]) << 24
        whole += (p[position + 4] << 16 | p[position + 5] << 8 | p[position + 6]) + _OVERHEAD
        frame = Frame._blank()
        if are_in_place:
            frame._buffer = data
            frame._start = position
            frame._end = position + whole
        else:
            if position + whole > piece_end:
                piece_start = position
                piece_end = min(length, position + max(whole, _PIECE))
                piece = p[piece_start:piece_end]
            frame._buffer = piece
            frame._start = position - piece_start
            frame._end = position + whole - piece_start
        frame.offset = base + position
        frame.kind = p[position]
        frame.channel = p[position + 1] << 8 | p[position + 2]
        frame.index = index_of[p[position + 8] * 256 + p[position + 10]] if frame.kind == _METHOD else -1
        frame.is_in_order = are_in_order
        frame.ordinal = 0
        frames.append(frame)
        position += whole
    if content_states:
        _number_contents(frames, content_states)
    return frames


def count_frames(data: bytes) -> int:
    """Return the number of frames that begin in `data`, from its first byte; one without a whole header is ignored."""
    p: cython.p_const_uchar = data
    end: cython.Py_ssize_t = len(data)
    position: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    while position + 7 <= end:
        size = cython.cast(cython.Py_ssize_t, p[position + 3]) << 24
        size += p[position + 4] << 16 | p[position + 5] << 8 | p[position + 6]
        position += _OVERHEAD + size
        count += 1
    return count


def _number_contents(frames: list[Frame], content_states: Mapping[int, CountsContents]) -> None:
    """Set the ordinal of each frame, looking only at the states of these frames, since there may be many."""
    begun: dict[int, int] = {}
    frame: Frame
    for frame in reversed(frames):
        number = frame.channel
        if number not in begun:
            content_state = content_states.get(number)
            if content_state is None:
                continue
            begun[number] = content_state.contents
        frame.ordinal = begun[number]
        begun[number] -= frame.kind == METHOD and BY_INDEX[frame.index].carries_content
