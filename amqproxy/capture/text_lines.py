"""Frames as lines for human readers, written from their bytes: byte for byte the same as `text.line` of their records.

No object is created for a frame, only its line. Unusual frames, such as those with text that is not ASCII or a table
that is not empty, are rendered by way of their `Record`. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from typing import Any

import msgspec

from amqproxy.amqp091.frame import Frame, index_table
from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, records_of
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import NOTHING
from amqproxy.taps.record import MASK, SECRETS, excerpt
from amqproxy.taps.text import ARROWS, clock, line, value_text

if not cython.compiled:
    from amqproxy.compiled.byte_access import field_size_at, long_at, long_long_at, put_bytes, put_digits

MAX_PAYLOAD = 1024 * 1024
"""Payload size beyond which a method or header is rendered by way of its record."""

_ROOM = cython.declare(cython.Py_ssize_t, 4096)
"""Space for a line without its values: the names of arguments and properties, and numbers."""
_GROWTH = cython.declare(cython.Py_ssize_t, 2)
"""Maximum bytes of a line for each byte of a frame: two, if it is escaped."""


def _secret_of(index: int) -> int:
    fields = BY_INDEX[index].__struct_fields__
    return fields.index(SECRETS[BY_INDEX[index].name]) if BY_INDEX[index].name in SECRETS else -1


def _keys(fields: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the text before each field's value: b"" if the field is reserved."""
    return tuple(b"" if each.startswith("reserved_") else f" {spec_name(each)}=".encode() for each in fields)


_INDEX_OF = cython.declare(bytes, index_table())
_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in BY_INDEX))
_METHOD_KEYS = cython.declare(tuple, tuple(_keys(cls.__struct_fields__) for cls in BY_INDEX))
_METHOD_HEADS = cython.declare(tuple, tuple(f"{cls.name} ".encode() for cls in BY_INDEX))
_SECRETS = cython.declare(tuple, tuple(_secret_of(index) for index in range(len(BY_INDEX))))
_MASK = cython.declare(bytes, value_text(MASK).encode())
_PROPERTIES = cython.declare(bytes, Properties.layout)
_PROPERTY_KEYS = cython.declare(tuple, tuple(f" {name}=".encode() for name in Properties.__struct_fields__))
_HEADER = cython.declare(bytes, b"  header  ")
_TO_COME = cython.declare(bytes, b" bytes to come ")
_BODY = cython.declare(bytes, b"  body  ")
_BYTES = cython.declare(bytes, b" bytes")
_SHOWN = cython.declare(bytes, b"  ")
_HEARTBEAT = cython.declare(bytes, b"heartbeat")
_TRUE = cython.declare(bytes, b"true")
_EMPTY = cython.declare(bytes, b"{}")
_CHANNEL = cython.declare(bytes, b"ch ")
_CHANNEL_WIDTH = cython.declare(cython.Py_ssize_t, 8)


@cython.final
@cython.cclass
class TextLines:
    """Gathers lines, each with its line end, until they are taken.

    The lines of body frames contain their first `body` bytes; `has_both_legs` is as in `records_of`.
    """

    def __init__(self, body: int = 0, *, has_both_legs: bool = False) -> None:
        self._body = body
        self._has_both_legs = has_both_legs
        self._buffer = bytearray(1 << 16)
        self._at = 0

    @property
    def size(self) -> int:
        """Bytes ready to be taken."""
        return self._at

    def take(self) -> bytes:
        """Return the lines added since the last call."""
        buffer: bytearray = self._buffer
        taken = bytes(memoryview(buffer)[: self._at])
        self._at = 0
        return taken

    def add(self, passed: Decoded) -> int:
        """Add the lines of a decoded item; return their number."""
        count: cython.Py_ssize_t = 0
        if (
            not isinstance(passed, Amqp091DecodedFrames)
            or passed.note is not NOTHING
            or (self._has_both_legs and passed.leg)
        ):
            return int(self._add_records(passed))
        frames = passed.frames
        head: bytes = f"{clock(passed.ts_ns)} #{passed.stream:<3} {ARROWS[passed.sender]} ".encode()
        data: bytes
        offset: cython.longlong
        if isinstance(frames, Amqp091Chunk):
            data = frames.data
            p: cython.p_const_uchar = data
            position: cython.Py_ssize_t = 0
            end: cython.Py_ssize_t = len(data)
            whole: cython.Py_ssize_t
            offset = frames.offset
            while position < end:
                whole = 8 + long_at(p, position + 3)
                if not self._add(head, data, position, position + whole):
                    self._add_odd(passed, Frame(data[position : position + whole], offset + position))
                position += whole
                count += 1
            return count
        for frame in frames:
            data = frame.raw
            if frame.lost or not self._add(head, data, 0, len(data)):
                self._add_odd(passed, frame)
            count += 1
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, room: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Make room at the end of the buffer."""
        buffer: bytearray = self._buffer
        if len(buffer) - self._at < room:
            buffer.extend(bytes(max(room, len(buffer))))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, head: bytes, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Add the line of the frame at `data[start:end]`; return 1, or 0 if the frame is unusual."""
        p: cython.p_const_uchar = data
        payload: cython.Py_ssize_t = end - start - 8
        kind: cython.int = p[start]
        index: cython.int
        at: cython.Py_ssize_t
        channel: cython.Py_ssize_t
        if kind == 3 or kind == 8:
            self._reserve(_ROOM + len(head))
        elif payload > MAX_PAYLOAD:
            return 0
        else:
            self._reserve(_ROOM + len(head) + payload * _GROWTH)
        out: cython.p_uchar = self._buffer
        at = put_bytes(out, self._at, head)
        channel = at + _CHANNEL_WIDTH
        at = put_bytes(out, at, _CHANNEL)
        at = put_digits(out, at, p[start + 1] << 8 | p[start + 2])
        while at < channel:
            out[at] = 32
            at += 1
        if at > channel or out[at - 1] != 32:
            out[at] = 32  # a number that fills its column
            at += 1
        if kind == 1:
            index = _index_of(p, start)
            at = put_bytes(out, at, _METHOD_HEADS[index])
            at = _fields(out, at, data, start + 11, end - 1, _LAYOUTS[index], _METHOD_KEYS[index], _SECRETS[index])
            if at < 0:
                return 0
        elif kind == 2:
            if payload < 14:
                return 0
            at = put_bytes(out, at, _HEADER)
            at = put_digits(out, at, long_long_at(p, start + 11))
            at = put_bytes(out, at, _TO_COME)
            at = _properties(out, at, data, start + 19, end - 1)
            if at < 0:
                return 0
        elif kind == 3:
            at = put_bytes(out, at, _BODY)
            at = put_digits(out, at, payload)
            at = put_bytes(out, at, _BYTES)
            if self._body:
                shown = value_text(excerpt(data[start + 7 : end - 1], self._body)).encode("utf-8", "backslashreplace")
                self._reserve(at - self._at + _ROOM + len(shown))
                out = self._buffer
                at = put_bytes(out, at, _SHOWN)
                at = put_bytes(out, at, shown)
        else:
            at = put_bytes(out, at, _HEARTBEAT)
        while out[at - 1] == 32:
            at -= 1
        out[at] = 10
        self._at = at + 1
        return 1

    @cython.cfunc
    def _add_odd(self, passed: Amqp091DecodedFrames, frame: Frame) -> object:
        self._add_records(msgspec.structs.replace(passed, frames=[frame]))
        return None

    @cython.cfunc
    def _add_records(self, passed: Decoded) -> Any:
        """Add the lines of an item by way of its records."""
        count = 0
        for record in records_of(passed, body=self._body, has_both_legs=self._has_both_legs):
            made = f"{line(record)}\n".encode("utf-8", "backslashreplace")
            self._reserve(len(made))
            self._at = put_bytes(self._buffer, self._at, made)
            count += 1
        return count


# --- values: each function writes at a place and returns the end of its output; -1 if the value is unusual


@cython.cfunc
@cython.exceptval(-2, check=False)
def _fields(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    layout: bytes,
    keys: tuple,  # type: ignore[type-arg]
    secret: cython.int,
) -> cython.Py_ssize_t:
    """Write the non-empty arguments of a method."""
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = layout
    count: cython.Py_ssize_t = len(layout)
    index: cython.Py_ssize_t
    size: cython.longlong
    code: cython.int
    bit: cython.int = 0
    key: bytes
    for index in range(count):
        code = program[index]
        key = keys[index]
        if code == 98:  # b
            if bit == 0:
                if position >= end:
                    return -1
                position += 1
            if len(key) and (p[position - 1] >> bit) & 1 == 1:
                at = put_bytes(out, put_bytes(out, at, key), _TRUE)
            bit = (bit + 1) & 7
            continue
        bit = 0
        size = field_size_at(p, position, end, code)
        if size < 0:
            return -1
        if len(key):
            if index == secret:
                at = put_bytes(out, put_bytes(out, at, key), _MASK)
            else:
                at = _field(out, at, key, p, position, size, code)
                if at < 0:
                    return -1
        position += size
    return at if position == end else -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _properties(
    out: cython.p_uchar, at: cython.Py_ssize_t, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the properties of a content header, as `wire.decode_flagged` reads them."""
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = _PROPERTIES
    count: cython.Py_ssize_t = len(_PROPERTIES)
    flags: cython.int = p[position] << 8 | p[position + 1]
    index: cython.Py_ssize_t
    size: cython.longlong
    code: cython.int
    key: bytes
    position += 2
    for index in range(count):
        if not flags & (0x8000 >> index):
            continue
        code = program[index]
        size = field_size_at(p, position, end, code)
        if size < 0:
            return -1
        key = _PROPERTY_KEYS[index]
        at = _field(out, at, key, p, position, size, code)
        if at < 0:
            return -1
        position += size
    return at if position == end else -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _field(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    key: bytes,
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    size: cython.longlong,
    code: cython.int,
) -> cython.Py_ssize_t:
    """A field of `size` bytes, which are there, with its name; nothing if it is an empty text."""
    if code == 115 or code == 117:
        if size == 1:
            return at
        return _put_text(out, put_bytes(out, at, key), p, position + 1, position + size)
    if code == 83:
        if size == 4:
            return at
        return _put_text(out, put_bytes(out, at, key), p, position + 4, position + size)
    at = put_bytes(out, at, key)
    if code == 70:
        return put_bytes(out, at, _EMPTY) if size == 4 else -1
    if code == 113:
        return put_digits(out, at, long_long_at(p, position))
    if code == 104:
        return put_digits(out, at, p[position] << 8 | p[position + 1])
    if code == 108:
        return put_digits(out, at, long_at(p, position))
    return put_digits(out, at, p[position])


# --- bytes


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _index_of(p: cython.p_const_uchar, start: cython.Py_ssize_t) -> cython.int:
    """Return the index of the method in a frame."""
    index_of: cython.p_const_uchar = _INDEX_OF
    return index_of[p[start + 8] * 256 + p[start + 10]]


@cython.cfunc
@cython.exceptval(check=False)
def _put_text(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a text, quoted and escaped if it contains a space; -1 if it is not printable ASCII."""
    place: cython.Py_ssize_t = start
    has_space: cython.bint = False
    byte: cython.int
    while place < end:
        byte = p[place]
        if byte < 32 or byte > 126:
            return -1
        if byte == 32:
            has_space = True
        place += 1
    if has_space:
        out[at] = 34
        at += 1
    while start < end:
        byte = p[start]
        if has_space and (byte == 34 or byte == 92):
            out[at] = 92
            at += 1
        out[at] = byte
        at += 1
        start += 1
    if has_space:
        out[at] = 34
        at += 1
    return at
