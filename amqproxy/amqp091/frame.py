"""One frame: bytes to `Frame`, and back (AMQP 0-9-1 section 4.2.3).

A `Frame` is what a `FrameReader` found whole; it is decoded when it is asked what it holds.
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
"""Bytes of a frame that are not payload: seven before it and one after."""

FRAME_MIN_SIZE = 4096
"""The least frame-max that peers may agree on, and all that may be sent before they do."""

# What decoding needs, as C sees it.
_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_PIECE = cython.declare(cython.Py_ssize_t, 448)
"""Bytes that small frames share, where they do not share all of them."""
_METHODS = cython.declare(tuple, tuple(StructDecoder(cls, cls.layout) for cls in BY_INDEX))
_PROPERTIES = cython.declare(StructDecoder, PROPERTIES)  # type: ignore[arg-type]
_CONTENT_HEADER = cython.declare(StructDecoder, StructDecoder(ContentHeader))  # type: ignore[arg-type]


def index_table() -> bytes:
    """The index of each method at 256 times its class id plus its method id; 255 where there is none."""
    table = bytearray([0xFF]) * (256 * 256)
    for cls in BY_INDEX:
        table[cls.class_id * 256 + cls.method_id] = cls.index
    return bytes(table)


_INDEX_OF = cython.declare(bytes, index_table())

# A publisher's messages tend to begin alike, to the byte: in their method and their header.
_PUBLISH = cython.declare(cython.int, BasicPublish.index)
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 160)
_PUBLISHES = cython.declare(DecodeCache, DecodeCache())
_HEADERS = cython.declare(DecodeCache, DecodeCache())


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame's bytes."""
    return b"%c%b%b%b\xce" % (kind, channel.to_bytes(2), len(payload).to_bytes(4), payload)


def encode_method(channel: int, method: Method) -> bytes:
    """The bytes of the frame that holds `method`."""
    return encode_frame(METHOD, channel, method.encode())


HEARTBEAT_FRAME = encode_frame(HEARTBEAT, 0, b"")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_same(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, q: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the bytes from `start` on are the first of others."""
    if not cython.compiled:
        return p.startswith(q[:size], start)
    return bool(memcmp(p + start, q, size) == 0)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class Frame:
    """One whole frame as it was received: `raw` is all its bytes, `offset` where they lay.

    `kind` is METHOD, HEADER, BODY or HEARTBEAT; `index` is the method's small number, or -1.
    Nothing is decoded before it is asked for. `is_in_order` says that the reader has checked the
    frame against its channel's content already; `ordinal` is then how many contents its direction
    of the channel has begun, with this frame. So many bytes at the end of its payload as `lost` says are not
    known, as in a capture of truncated packets, and are zeros here.
    """

    # Its bytes are those of `_buffer` from `_start` to `_end`: all there are, or what a zero-copy reader was fed.

    def __init__(self, raw: bytes, offset: int = 0, lost: int = 0) -> None:
        """`raw` must be one whole frame that a `FrameReader` would pass."""
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
        return p[self._start + 7 : self._end - 1]

    def is_as(self, raw: bytes) -> bool:
        """Is `raw` what `FrameReader` has found here? Compared without a copy."""
        size: cython.Py_ssize_t = len(raw)
        start: cython.Py_ssize_t = self._start
        if self._end - start != size:
            return False
        p: cython.p_const_uchar = self._buffer
        return _is_same(p, start, raw, size)

    def length(self) -> cython.Py_ssize_t:
        """How many bytes it is, all in all; for callers that are compiled."""
        return self._end - self._start

    @property
    def delivery_tag(self) -> int:
        """The tag that a basic.ack, nack or reject begins with; it must be whole."""
        return self.long_long_at(11)

    def long_long_at(self, place: cython.Py_ssize_t) -> cython.ulonglong:
        """The unsigned number in the eight bytes at `place`, which must be there."""
        p: cython.p_const_uchar = self._buffer
        return long_long_at(p, self._start + place)

    def byte_at(self, place: cython.Py_ssize_t) -> cython.int:
        """The byte at `place`, which must be there."""
        p: cython.p_const_uchar = self._buffer
        return p[self._start + place]

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self._end - self._start - OVERHEAD

    @property
    def method(self) -> Any:
        """The method, decoded; `ProtocolError` when its arguments are malformed.

        Only of a METHOD frame.
        """
        return self._decoded if self._decoded is not None else self._decode_method()

    @property
    def header(self) -> Any:
        """The `ContentHeader`, decoded; `ProtocolError` when malformed. Only of a HEADER frame."""
        return self._decoded if self._decoded is not None else self._decode_header()

    @property
    def value(self) -> Any:
        """What the frame holds, decoded: a method, a `ContentHeader`, or bytes of a body."""
        if self._decoded is not None:
            return self._decoded
        if self.kind == _METHOD:
            return self._decode_method()
        if self.kind == _HEADER:
            return self._decode_header()
        return self.payload_bytes()

    @property
    def body_size(self) -> int:
        """The bytes of body that a HEADER frame announces."""
        return self.announced()

    def announced(self) -> cython.ulonglong:
        """The same; for callers that are compiled."""
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
            self._decoded = decoder._of_fields(self._buffer, start, start + size)
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
            properties = _PROPERTIES._of_flagged(data, start + 19, self._end - 1)
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
        """Say where in the direction an error lies that was found in `_buffer`."""
        error.channel = self.channel
        error.offset = self.offset + (error.offset or 0) - self._start

    def __repr__(self) -> str:
        what = BY_INDEX[self.index].name if self.kind == METHOD else f"kind={self.kind}"
        return f"<Frame {what} channel={self.channel} size={self.size} offset={self.offset}>"


class CountsContents(Protocol):
    """What knows how many contents one direction of a channel has begun, as a reader's `ContentState` does."""

    @property
    def contents(self) -> int: ...


def every_frame(
    data: bytes,
    offset: int,
    content_states: Mapping[int, CountsContents] | None = None,
    is_in_order: bool = True,
    zero_copy: bool = False,
) -> list[Frame]:
    """All the frames in `data`, which are whole and have been found good; they lie at `offset`.

    `content_states` know how many contents their channels have begun by the end of them, for the frames' ordinals.
    With `zero_copy` each of them keeps all of `data`: for frames that are not kept for long.
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
    """How many frames are in `data`, which are whole and have been found good."""
    p: cython.p_const_uchar = data
    end: cython.Py_ssize_t = len(data)
    position: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    while position < end:
        size = cython.cast(cython.Py_ssize_t, p[position + 3]) << 24
        size += p[position + 4] << 16 | p[position + 5] << 8 | p[position + 6]
        position += _OVERHEAD + size
        count += 1
    return count


def _number_contents(frames: list[Frame], content_states: Mapping[int, CountsContents]) -> None:
    """Give each frame its ordinal. There may be many states: only those of these frames are looked at."""
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
