"""Frames as lines of JSON, written from their bytes: byte for byte the same as `Record.to_json`.

No object is created for a frame, only its line. Unusual frames, such as those with an argument that is malformed or not
UTF-8, are written by way of their `Record`. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

import struct
from decimal import Decimal
from typing import Any

import msgspec

from amqproxy.amqp010 import frame as amqp010_frame
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import BY_INDEX as AMQP010_METHODS
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp010.json_fields import GROWTH as AMQP010_GROWTH
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, records_of
from amqproxy.capture.frame_writer import HEADER_FIELDS, MAX_PAYLOAD, FrameLines
from amqproxy.taps.amqp010.record import FLAGS
from amqproxy.taps.record import MASK, encoded, excerpt, json_value

if not cython.compiled:
    from amqproxy.capture.amqp010.json_fields import put_value
    from amqproxy.capture.frame_writer import method_index, number_field
    from amqproxy.capture.json_text import put_text
    from amqproxy.compiled.byte_access import (
        long_at,
        long_long_at,
        put_bytes,
        put_digits,
        put_signed,
        signed_long_long_at,
    )

MAX_NAMES = 64
"""Entries beyond which a table is written by way of its frame's record."""
MAX_HEADS = 4096
"""Cached beginnings of lines, one for each direction of a stream."""

GROWTH = 6
"""Maximum bytes of JSON for each byte of a 0-9-1 frame: six, for a control character."""
_GROWTH = cython.declare(cython.Py_ssize_t, GROWTH)
_AMQP010_GROWTH = cython.declare(cython.Py_ssize_t, AMQP010_GROWTH)
_MAX_PAYLOAD = cython.declare(cython.Py_ssize_t, MAX_PAYLOAD)
_MAX_DEPTH = cython.declare(cython.int, 128)

_METHOD_KEYS = cython.declare(
    tuple, tuple(tuple(encoded(spec_name(field)) + b":" for field in cls.__struct_fields__) for cls in BY_INDEX)
)
_METHOD_HEADS = cython.declare(
    tuple, tuple(b',"type":"method","method":"%b","arguments":{' % cls.name.encode() for cls in BY_INDEX)
)
_MASK = cython.declare(bytes, encoded(MASK))
_PROPERTY_KEYS = cython.declare(tuple, tuple(encoded(name) + b":" for name in Properties.__struct_fields__))


_TYPE_HEADER = cython.declare(bytes, b',"type":"header","arguments":{"body_size":')
_TYPE_BODY = cython.declare(bytes, b',"type":"body"')
_TYPE_HEARTBEAT = cython.declare(bytes, b',"type":"heartbeat"')
_PROPERTIES_KEY = cython.declare(bytes, b'},"properties":{')
_SIZE = cython.declare(bytes, b',"size":')
_CLOSED_SIZE = cython.declare(bytes, b'},"size":')
_BODY_KEY = cython.declare(bytes, b',"body":')
_START = cython.declare(bytes, b'{"ts_ns":')
_TRUE = cython.declare(bytes, b"true")
_FALSE = cython.declare(bytes, b"false")
_AMQP010_HEADS = cython.declare(
    tuple,
    tuple(
        b',"type":"%b","method":"%b","arguments":{' % (cls.segment.name.lower().encode(), cls.name.encode())
        for cls in AMQP010_METHODS
    ),
)
_AMQP010_HEADER = cython.declare(bytes, b',"type":"header","properties":{')
_AMQP010_KEYS = cython.declare(
    tuple, tuple(tuple(encoded(name) + b":" for name, _ in cls.spoken) for cls in AMQP010_METHODS)
)
_HEADER_KEYS = cython.declare(tuple, tuple(encoded(name) + b":" for name in HEADER_FIELDS))
_COMMAND_ID = cython.declare(bytes, b',"command_id":')
_FLAGS = cython.declare(tuple, tuple(b',"flags":"%b"}\n' % flags.encode() for flags in FLAGS))
_OVERHEAD = cython.declare(cython.Py_ssize_t, amqp010_frame.OVERHEAD)
_AMQP010_COMMAND = cython.declare(cython.int, amqp010_frame.COMMAND)
_AMQP010_HEADER_KIND = cython.declare(cython.int, amqp010_frame.HEADER)
_NULL = cython.declare(bytes, b"null")
_LEAST_TIME, _LATEST_TIME = -(2**63), 2**63 - 1
_SAMPLE_START = b'{"ts_ns":0'


@cython.final
@cython.cclass
class JSONLines(FrameLines):
    """Lines of JSON."""

    def __init__(self, body: int = 0, *, has_both_legs: bool = False) -> None:
        super().__init__(body, has_both_legs=has_both_legs)
        self._heads: dict[object, tuple[bytes, bytes]] = {}
        self._behind = b""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, passed: DecodedFrames) -> cython.bint:
        if not _LEAST_TIME <= passed.ts_ns <= _LATEST_TIME:
            return False
        key = (passed.stream, passed.sender, passed.leg)
        texts: tuple[bytes, bytes] | None = self._heads.get(key)
        if texts is None:
            texts = self._texts(passed)
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            self._heads[key] = texts
        before: bytes = texts[0]
        self._behind = texts[1]
        head: bytearray = self._head
        if len(head) < len(before) + 32:
            head.extend(bytes(len(before) + 32))
        out: cython.p_uchar = head
        at: cython.Py_ssize_t = put_bytes(out, 0, _START)
        at = put_signed(out, at, passed.ts_ns)
        self._head_size = put_bytes(out, at, before)
        return True

    def _texts(self, passed: DecodedFrames) -> tuple[bytes, bytes]:
        """Return the text of a direction's lines between time and channel, and that after the size."""
        if isinstance(passed, Amqp091DecodedFrames):
            sample: Decoded = msgspec.structs.replace(passed, ts_ns=0, frames=[Frame(HEARTBEAT_FRAME)])
            middle, end = b'0,"type":"heartbeat","size":0', b""
        else:
            body = Amqp010Frame(amqp010_frame.encode_frame(0, amqp010_frame.BODY, 0, b""))
            sample = msgspec.structs.replace(passed, ts_ns=0, frames=[body], command_ids=[None])
            middle, end = b'0,"type":"body","size":0', b',"flags":""}'
        (record,) = records_of(sample, has_both_legs=self._has_both_legs)
        before, found, behind = record.to_json().partition(middle)
        if not found or not behind.endswith(end):
            raise AssertionError("a record is not written as it was")
        return before.removeprefix(_SAMPLE_START), behind.removesuffix(end) if end else behind + b"\n"

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_amqp010(self, frame: Amqp010Frame, command_id: object) -> cython.Py_ssize_t:
        data: bytes = frame._buffer
        start: cython.Py_ssize_t = frame._start + _OVERHEAD
        end: cython.Py_ssize_t = frame._end
        kind: cython.int = frame.kind
        number: cython.ulonglong
        room: cython.Py_ssize_t = len(self._behind)
        if kind > _AMQP010_HEADER_KIND:
            if frame.lost:
                return 0
        elif frame.flags & 3 != 3 or end - start > _MAX_PAYLOAD or (kind <= _AMQP010_COMMAND and frame.index < 0):
            return 0
        else:
            room += (end - start) * _AMQP010_GROWTH
        at: cython.Py_ssize_t = self._start(room)
        out: cython.p_uchar = self._out
        at = put_digits(out, at, frame.channel)
        if kind <= _AMQP010_COMMAND:
            self._keys = _AMQP010_KEYS[frame.index]
            at = put_bytes(out, at, _AMQP010_HEADS[frame.index])
            at = self._packed_arguments(at, data, start, end, kind, frame.index)
        elif kind == _AMQP010_HEADER_KIND:
            self._keys = _HEADER_KEYS
            at = self._packed_properties(put_bytes(out, at, _AMQP010_HEADER), data, start, end)
        else:
            at = put_bytes(out, at, _TYPE_BODY)
        if at < 0:
            return 0
        at = put_bytes(out, at, _SIZE if kind > _AMQP010_HEADER_KIND else _CLOSED_SIZE)
        at = self._put_size(at, data, start, end, kind > _AMQP010_HEADER_KIND)
        out = self._out
        if command_id is not None:
            number = command_id  # type: ignore[assignment]
            at = put_bytes(out, at, _COMMAND_ID)
            at = put_digits(out, at, number)
        self._at = put_bytes(out, at, _FLAGS[frame.flags])
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_size(
        self,
        at: cython.Py_ssize_t,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        is_body: cython.bint,
    ) -> cython.Py_ssize_t:
        """Write the size of the payload `data[start:end]`, its first bytes if it `is_body`, and what follows them."""
        at = put_digits(self._out, at, end - start)
        if is_body and self._body:
            shown = encoded(excerpt(data[start:end], self._body))
            self._reserve(at - self._at + len(shown) + len(self._behind) + 128)
            at = put_bytes(self._out, at, _BODY_KEY)
            at = put_bytes(self._out, at, shown)
        return put_bytes(self._out, at, self._behind)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        p: cython.p_const_uchar = data
        payload: cython.Py_ssize_t = end - start - 8
        kind: cython.int = p[start]
        index: cython.int
        room: cython.Py_ssize_t = len(self._behind)
        if kind != 3 and kind != 8:
            if payload > _MAX_PAYLOAD:
                return 0
            room += payload * _GROWTH
        at: cython.Py_ssize_t = self._start(room)
        out: cython.p_uchar = self._out
        at = put_digits(out, at, p[start + 1] << 8 | p[start + 2])
        if kind == 1:
            index = method_index(p, start)
            self._keys = _METHOD_KEYS[index]
            at = self._arguments(put_bytes(out, at, _METHOD_HEADS[index]), data, start + 11, end - 1, index)
        elif kind == 2:
            if payload < 14:
                return 0
            at = put_bytes(out, at, _TYPE_HEADER)
            at = put_digits(out, at, long_long_at(p, start + 11))
            self._keys = _PROPERTY_KEYS
            at = self._properties(put_bytes(out, at, _PROPERTIES_KEY), data, start + 19, end - 1)
        else:
            at = put_bytes(out, at, _TYPE_BODY if kind == 3 else _TYPE_HEARTBEAT)
        if at < 0:
            return 0
        at = put_bytes(out, at, _CLOSED_SIZE if kind <= 2 else _SIZE)
        self._at = self._put_size(at, data, start + 7, end - 1, kind == 3)
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
        out: cython.p_uchar = self._out
        p: cython.p_const_uchar = data
        at = self._put_key(at, field)
        if code == 115 or code == 117:
            return put_text(out, at, p, position + 1, position + size)
        if code == 98:
            return put_bytes(out, at, _TRUE if size else _FALSE)
        if code == 83:
            return put_text(out, at, p, position + 4, position + size)
        if code == 70:
            return put_table(out, at, data, position + 4, position + size, 0, True)
        if code == 42:
            return put_bytes(out, at, _MASK)
        return put_digits(out, at, number_field(p, position, size))

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _packed_field(
        self,
        at: cython.Py_ssize_t,
        field: cython.Py_ssize_t,
        code: cython.int,
        data: bytes,
        position: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        if code == 0xF1:  # bit
            if not size and self._keys is _HEADER_KEYS:
                return at
            return put_bytes(self._out, self._put_key(at, field), _TRUE if size else _FALSE)
        at = self._put_key(at, field)
        if code == 42:
            return put_bytes(self._out, at, _MASK)
        return put_value(self._out, at, data, position, size, code, 1)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-2, check=False)
    def _put_key(self, at: cython.Py_ssize_t, field: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the key of a field, after a comma unless it is the first."""
        if self._out[at - 1] != 123:
            self._out[at] = 44
            at += 1
        return put_bytes(self._out, at, self._keys[field])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_object(
        self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.int
    ) -> cython.Py_ssize_t:
        """Add the arguments of the method in the frame at `data[start:end]` as an object; return 1, or 0."""
        self._reserve(4096 + (end - start) * _GROWTH)
        self._out[self._at] = 123
        self._keys = _METHOD_KEYS[index]
        at: cython.Py_ssize_t = self._arguments(self._at + 1, data, start + 11, end - 1, index)
        if at < 0:
            return 0
        self._out[at] = 125
        self._at = at + 1
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_packed_object(
        self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, kind: cython.int, index: cython.int
    ) -> cython.Py_ssize_t:
        """Like `_add_object`, for the 0-10 control or command with the segment `data[start:end]`."""
        self._reserve(4096 + (end - start) * _AMQP010_GROWTH)
        self._out[self._at] = 123
        self._keys = _AMQP010_KEYS[index]
        at: cython.Py_ssize_t = self._packed_arguments(self._at + 1, data, start, end, kind, index)
        if at < 0:
            return 0
        self._out[at] = 125
        self._at = at + 1
        return 1

    @cython.cfunc
    def _line(self, record: Any) -> bytes:
        line: bytes = record.to_json()
        return line + b"\n"


# --- tables: each function returns the end of its output in `out`, or -1 if its input is unusual


@cython.cfunc
@cython.exceptval(-2, check=False)
def put_table(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.int,
    are_named: cython.bint,
) -> cython.Py_ssize_t:
    """Write the entries of a table as an object, or unless they `are_named` those of an array.

    Entries with the same name, and tables that look like their values, are left to a record.
    """
    p: cython.p_const_uchar = data
    first: cython.Py_ssize_t = position
    count: cython.int = 0
    name: cython.Py_ssize_t
    size: cython.longlong
    if depth > _MAX_DEPTH:
        return -1
    out[at] = 123 if are_named else 91
    at += 1
    while position < end:
        if position > first:
            out[at] = 44
            at += 1
        if are_named:
            name = position
            position += 1 + p[position]
            if position >= end or count == MAX_NAMES or (count and _is_known(p, first, name)):
                return -1
            if depth and position - name == 9 and data[name + 1 : position] == b"repeated":
                return -1
            count += 1
            at = put_text(out, at, p, name + 1, position)
            if at < 0:
                return -1
            out[at] = 58
            at += 1
        size = value_size(p, position, end)
        if size < 0:
            return -1
        at = _value(out, at, data, position, size, depth)
        if at < 0:
            return -1
        position += 1 + size
    out[at] = 125 if are_named else 93
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def _is_known(p: cython.p_const_uchar, position: cython.Py_ssize_t, name: cython.Py_ssize_t) -> cython.bint:
    """Whether an entry from `position` up to the one at `name` has its name; the entries are known to be valid."""
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = p[name]
    while position < name:
        if p[position] == size:
            i = 1
            while i <= size and p[position + i] == p[name + i]:
                i += 1
            if i > size:
                return True
        position += 1 + p[position]
        position += 1 + value_size(p, position, name)
    return False


@cython.cfunc
@cython.exceptval(check=False)
def value_size(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """Return the size of a value after its type letter at `position`; -1 if the type is unknown or the value is cut."""
    kind: cython.int = p[position]
    size: cython.longlong
    if kind == 83 or kind == 120 or kind == 70 or kind == 65:  # S x F A
        if end - position < 5:
            return -1
        size = 4 + long_at(p, position + 1)
    elif kind == 86:  # V
        size = 0
    elif kind == 116 or kind == 98 or kind == 66:  # t b B
        size = 1
    elif kind == 115 or kind == 85 or kind == 117:  # s U u
        size = 2
    elif kind == 73 or kind == 105 or kind == 102:  # I i f
        size = 4
    elif kind == 108 or kind == 76 or kind == 84 or kind == 100:  # l L T d
        size = 8
    elif kind == 68:  # D
        size = 5
    else:
        return -1
    return size if size <= end - position - 1 else -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _value(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    size: cython.longlong,
    depth: cython.int,
) -> cython.Py_ssize_t:
    """Write a value of a table or an array, with its type letter at `position` and `size` bytes after it."""
    p: cython.p_const_uchar = data
    kind: cython.int = p[position]
    position += 1
    number: cython.longlong
    if kind == 83 or kind == 120:  # S x
        return put_text(out, at, p, position + 4, position + size)
    if kind == 73:  # I
        number = long_at(p, position)
        return put_signed(out, at, number - (number >> 31 << 32))
    if kind == 108 or kind == 76:  # l L
        return put_signed(out, at, signed_long_long_at(p, position))
    if kind == 116:  # t
        return put_bytes(out, at, _TRUE if p[position] else _FALSE)
    if kind == 84:  # T
        return put_digits(out, at, long_long_at(p, position))
    if kind == 98:  # b
        number = p[position]
        return put_signed(out, at, number - (number >> 7 << 8))
    if kind == 115 or kind == 85:  # s U
        number = p[position] << 8 | p[position + 1]
        return put_signed(out, at, number - (number >> 15 << 16))
    if kind == 66:  # B
        return put_digits(out, at, p[position])
    if kind == 117:  # u
        return put_digits(out, at, p[position] << 8 | p[position + 1])
    if kind == 105:  # i
        return put_digits(out, at, long_at(p, position))
    if kind == 86:  # V
        return put_bytes(out, at, _NULL)
    if kind == 70:  # F
        return put_table(out, at, data, position + 4, position + size, depth + 1, True)
    if kind == 65:  # A
        return put_table(out, at, data, position + 4, position + size, depth + 1, False)
    return put_bytes(out, at, _fraction(kind, data[position : position + size]))


def _fraction(kind: int, data: bytes) -> bytes:
    """Write a floating-point number or a decimal."""
    if kind == 68:  # D
        scale, unscaled = struct.unpack(">Bi", data)
        return encoded(Decimal(f"{unscaled}E-{scale}"))
    return encoded(json_value(struct.unpack(">f" if kind == 102 else ">d", data)[0]))
