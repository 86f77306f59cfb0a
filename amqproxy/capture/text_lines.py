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

from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.frame_writer import MAX_PAYLOAD, FrameLines
from amqproxy.taps.record import MASK, excerpt
from amqproxy.taps.text import ARROWS, clock, line, value_text

if not cython.compiled:
    from amqproxy.capture.frame_writer import method_index, number_field
    from amqproxy.compiled.byte_access import long_long_at, put_bytes, put_digits

_GROWTH = cython.declare(cython.Py_ssize_t, 2)
"""Maximum bytes of a line for each byte of a frame: two, if it is escaped."""
_MAX_PAYLOAD = cython.declare(cython.Py_ssize_t, MAX_PAYLOAD)

_METHOD_KEYS = cython.declare(
    tuple, tuple(tuple(f" {spec_name(field)}=".encode() for field in cls.__struct_fields__) for cls in BY_INDEX)
)
_METHOD_HEADS = cython.declare(tuple, tuple(f"{cls.name} ".encode() for cls in BY_INDEX))
_MASK = cython.declare(bytes, value_text(MASK).encode())
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
class TextLines(FrameLines):
    """Lines for human readers; those of other protocols than 0-9-1 are made of records."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, passed: DecodedFrames) -> cython.bint:
        if type(passed) is not Amqp091DecodedFrames or (self._has_both_legs and passed.leg):
            return False
        head: bytes = f"{clock(passed.ts_ns)} #{passed.stream:<3} {ARROWS[passed.sender]} ".encode()
        if len(self._head) < len(head):
            self._head = bytearray(2 * len(head))
        self._head_size = put_bytes(self._head, 0, head)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        p: cython.p_const_uchar = data
        payload: cython.Py_ssize_t = end - start - 8
        kind: cython.int = p[start]
        index: cython.int
        if kind != 3 and kind != 8 and payload > _MAX_PAYLOAD:
            return 0
        at: cython.Py_ssize_t = self._start(0 if kind == 3 or kind == 8 else payload * _GROWTH)
        channel: cython.Py_ssize_t = at + _CHANNEL_WIDTH
        out: cython.p_uchar = self._out
        at = put_bytes(out, at, _CHANNEL)
        at = put_digits(out, at, p[start + 1] << 8 | p[start + 2])
        while at < channel:
            out[at] = 32
            at += 1
        if at > channel or out[at - 1] != 32:
            out[at] = 32  # a number that fills its column
            at += 1
        if kind == 1:
            index = method_index(p, start)
            self._keys = _METHOD_KEYS[index]
            at = self._arguments(put_bytes(out, at, _METHOD_HEADS[index]), data, start + 11, end - 1, index)
        elif kind == 2:
            if payload < 14:
                return 0
            at = put_bytes(out, at, _HEADER)
            at = put_digits(out, at, long_long_at(p, start + 11))
            self._keys = _PROPERTY_KEYS
            at = self._properties(put_bytes(out, at, _TO_COME), data, start + 19, end - 1)
        elif kind == 3:
            at = put_bytes(out, at, _BODY)
            at = put_digits(out, at, payload)
            at = put_bytes(out, at, _BYTES)
            if self._body:
                shown = value_text(excerpt(data[start + 7 : end - 1], self._body)).encode("utf-8", "backslashreplace")
                self._reserve(at - self._at + 64 + len(shown))
                out = self._out
                at = put_bytes(out, at, _SHOWN)
                at = put_bytes(out, at, shown)
        else:
            at = put_bytes(out, at, _HEARTBEAT)
        if at < 0:
            return 0
        while out[at - 1] == 32:
            at -= 1
        out[at] = 10
        self._at = at + 1
        return 1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _field(
        self,
        at: cython.Py_ssize_t,
        field: cython.Py_ssize_t,
        code: cython.int,
        data: bytes,
        position: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write a field with its name; nothing if it is an empty text, or false."""
        out: cython.p_uchar = self._out
        p: cython.p_const_uchar = data
        key: bytes = self._keys[field]
        if code == 115 or code == 117:
            return at if size == 1 else _put_text(out, put_bytes(out, at, key), p, position + 1, position + size)
        if code == 83:
            return at if size == 4 else _put_text(out, put_bytes(out, at, key), p, position + 4, position + size)
        if code == 98 and not size:
            return at
        at = put_bytes(out, at, key)
        if code == 98:
            return put_bytes(out, at, _TRUE)
        if code == 70:
            return put_bytes(out, at, _EMPTY) if size == 4 else -1
        if code == 42:
            return put_bytes(out, at, _MASK)
        return put_digits(out, at, number_field(p, position, size))

    @cython.cfunc
    def _line(self, record: Any) -> bytes:
        return f"{line(record)}\n".encode("utf-8", "backslashreplace")


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
