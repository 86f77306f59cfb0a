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
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame, index_table
from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp010.json_fields import GROWTH as AMQP010_GROWTH
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, records_of
from amqproxy.taps.amqp010.record import FLAGS
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import NOTHING
from amqproxy.taps.record import MASK, SECRETS, encoded, excerpt, json_value

if not cython.compiled:
    from amqproxy.capture.amqp010.json_fields import put_arguments, put_properties
    from amqproxy.capture.json_text import put_text
    from amqproxy.compiled.byte_access import (
        field_size_at,
        long_at,
        long_long_at,
        put_bytes,
        put_digits,
        put_signed,
        signed_long_long_at,
    )

MAX_PAYLOAD = 1024 * 1024
"""Payload size beyond which a method or header is written by way of its record."""
MAX_NAMES = 64
"""Entries beyond which a table is written by way of its frame's record."""
MAX_HEADS = 4096
"""Cached beginnings of lines, one for each direction of a stream."""

_ROOM_FOR_KEYS = cython.declare(cython.Py_ssize_t, 4096)
"""Space for a line without its values: the names of arguments and properties, and numbers."""
_GROWTH = cython.declare(cython.Py_ssize_t, 6)
"""Maximum bytes of JSON for each byte of a 0-9-1 frame: six, for a control character."""
_AMQP010_GROWTH = cython.declare(cython.Py_ssize_t, AMQP010_GROWTH)
_MAX_DEPTH = cython.declare(cython.int, 128)


def _keys(names: list[tuple[str, str]]) -> tuple[bytes, ...]:
    """Return the text before each field's value: b"" if the field is reserved."""
    keys: list[bytes] = []
    for field, name in names:
        comma = b"," if any(keys) else b""
        keys.append(b"" if field.startswith("reserved_") else comma + encoded(name) + b":")
    return tuple(keys)


def _secret_of(index: int) -> int:
    fields = BY_INDEX[index].__struct_fields__
    return fields.index(SECRETS[BY_INDEX[index].name]) if BY_INDEX[index].name in SECRETS else -1


_INDEX_OF = cython.declare(bytes, index_table())
_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in BY_INDEX))
_METHOD_KEYS = cython.declare(
    tuple, tuple(_keys([(field, spec_name(field)) for field in cls.__struct_fields__]) for cls in BY_INDEX)
)
_METHOD_HEADS = cython.declare(
    tuple, tuple(b',"type":"method","method":"%b","arguments":{' % cls.name.encode() for cls in BY_INDEX)
)
_SECRETS = cython.declare(tuple, tuple(_secret_of(index) for index in range(len(BY_INDEX))))
_MASK = cython.declare(bytes, encoded(MASK))
_PROPERTIES = cython.declare(bytes, Properties.layout)
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
        b',"type":"%b","method":"%b","arguments":' % (cls.segment.name.lower().encode(), cls.name.encode())
        for cls in AMQP010_METHODS
    ),
)
_AMQP010_HEADER = cython.declare(bytes, b',"type":"header","properties":')
_COMMAND_ID = cython.declare(bytes, b',"command_id":')
_FLAGS = cython.declare(tuple, tuple(b',"flags":"%b"}\n' % flags.encode() for flags in FLAGS))
_OVERHEAD = cython.declare(cython.Py_ssize_t, amqp010_frame.OVERHEAD)
_AMQP010_COMMAND = cython.declare(cython.int, amqp010_frame.COMMAND)
_AMQP010_HEADER_KIND = cython.declare(cython.int, amqp010_frame.HEADER)
_NULL = cython.declare(bytes, b"null")


@cython.final
@cython.cclass
class JSONLines:
    """Gathers lines, each with its line end, until they are taken.

    The lines of body frames contain their first `body` bytes; `has_both_legs` is as in `records_of`.
    """

    def __init__(self, body: int = 0, *, has_both_legs: bool = False) -> None:
        self._body = body
        self._has_both_legs = has_both_legs
        self._buffer = bytearray(1 << 16)
        self._at = 0
        self._heads: dict[object, tuple[bytes, bytes]] = {}

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
        if isinstance(passed, Amqp010DecodedFrames):
            return self._add_of_0_10(passed)
        if (
            not isinstance(passed, Amqp091DecodedFrames)
            or passed.note is not NOTHING
            or not _LEAST_TIME <= passed.ts_ns <= _LATEST_TIME
        ):
            return int(self._add_records(passed))
        frames = passed.frames
        head: tuple[bytes, bytes] = self._head(passed)
        before, behind = head
        ts_ns: cython.longlong = passed.ts_ns
        data: bytes
        offset: cython.longlong
        # The position of the line whose beginning the next one shares.
        model: cython.Py_ssize_t = -1
        size: cython.Py_ssize_t = 0
        if isinstance(frames, Amqp091Chunk):
            data = frames.data
            p: cython.p_const_uchar = data
            position: cython.Py_ssize_t = 0
            end: cython.Py_ssize_t = len(data)
            whole: cython.Py_ssize_t
            offset = frames.offset
            while position < end:
                whole = 8 + long_at(p, position + 3)
                if model < 0:
                    model = self._at
                    size = self._begin(ts_ns, before)
                else:
                    self._begin_alike(model, size)
                if not self._add(data, position, position + whole, behind):
                    self._at -= size
                    model = -1
                    self._add_odd(passed, Frame(data[position : position + whole], offset + position))
                position += whole
                count += 1
            return count
        for frame in frames:
            data = frame.raw
            size = self._begin(ts_ns, before)
            if frame.lost or not self._add(data, 0, len(data), behind):
                self._at -= size
                self._add_odd(passed, frame)
            count += 1
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_of_0_10(self, passed: Amqp010DecodedFrames) -> cython.Py_ssize_t:
        """Add the lines of AMQP 0-10 frames."""
        count: cython.Py_ssize_t = 0
        if passed.note is not NOTHING or not _LEAST_TIME <= passed.ts_ns <= _LATEST_TIME:
            return int(self._add_records(passed))
        head: tuple[bytes, bytes] = self._head(passed)
        before, behind = head
        ts_ns: cython.longlong = passed.ts_ns
        frame: Amqp010Frame
        # The position of the line whose beginning the next one shares.
        model: cython.Py_ssize_t = -1
        size: cython.Py_ssize_t = 0
        for frame, command_id in zip(passed.frames, passed.command_ids, strict=True):
            if model < 0:
                model = self._at
                size = self._begin(ts_ns, before)
            else:
                self._begin_alike(model, size)
            if not self._add_frame_of_0_10(frame, command_id, behind):
                self._at -= size
                model = -1
                self._add_records(msgspec.structs.replace(passed, frames=[frame], command_ids=[command_id]))
            count += 1
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_frame_of_0_10(self, frame: Amqp010Frame, command_id: object, behind: bytes) -> cython.Py_ssize_t:
        """Add a line from its channel on; return 1, or 0 if the frame is unusual."""
        data: bytes = frame._buffer
        start: cython.Py_ssize_t = frame._start + _OVERHEAD
        end: cython.Py_ssize_t = frame._end
        kind: cython.int = frame.kind
        number: cython.ulonglong
        if kind > _AMQP010_HEADER_KIND:
            if frame.lost:
                return 0
            self._reserve(_ROOM_FOR_KEYS + len(behind))
        elif frame.flags & 3 != 3 or end - start > MAX_PAYLOAD or (kind <= _AMQP010_COMMAND and frame.index < 0):
            return 0
        else:
            self._reserve(_ROOM_FOR_KEYS + len(behind) + (end - start) * _AMQP010_GROWTH)
        out: cython.p_uchar = self._buffer
        at: cython.Py_ssize_t = put_digits(out, self._at, frame.channel)
        if kind <= _AMQP010_COMMAND:
            at = put_bytes(out, at, _AMQP010_HEADS[frame.index])
            at = put_arguments(out, at, data, start, end, kind, frame.index)
        elif kind == _AMQP010_HEADER_KIND:
            at = put_bytes(out, at, _AMQP010_HEADER)
            at = put_properties(out, at, data, start, end)
        else:
            at = put_bytes(out, at, _TYPE_BODY)
        if at < 0:
            return 0
        at = put_bytes(out, at, _SIZE)
        at = put_digits(out, at, end - start)
        if kind > _AMQP010_HEADER_KIND and self._body:
            shown = encoded(excerpt(data[start:end], self._body))
            self._at = at
            self._reserve(_ROOM_FOR_KEYS + len(behind) + len(shown))
            out = self._buffer
            at = put_bytes(out, at, _BODY_KEY)
            at = put_bytes(out, at, shown)
        at = put_bytes(out, at, behind)
        if command_id is not None:
            number = command_id  # type: ignore[assignment]
            at = put_bytes(out, at, _COMMAND_ID)
            at = put_digits(out, at, number)
        self._at = put_bytes(out, at, _FLAGS[frame.flags])
        return 1

    @cython.cfunc
    def _head(self, passed: DecodedFrames) -> Any:
        """Return the text of a direction's lines between time and channel, and that after the size."""
        key = (passed.stream, passed.sender, passed.leg)
        head: tuple[bytes, bytes] | None = self._heads.get(key)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            middle, end = (
                (_SAMPLE, b"") if isinstance(passed, Amqp091DecodedFrames) else (_SAMPLE_OF_0_10, _SAMPLE_FLAGS)
            )
            (sample,) = records_of(self._sample(passed), has_both_legs=self._has_both_legs)
            before, found, behind = sample.to_json().partition(middle)
            if not found or not behind.endswith(end):
                raise AssertionError("a record is not written as it was")
            behind = behind[: len(behind) - len(end)] if end else behind + b"\n"
            head = self._heads[key] = (before.removeprefix(_SAMPLE_START), behind)
        return head

    @staticmethod
    def _sample(passed: DecodedFrames) -> Decoded:
        """Return a minimal frame in the same direction."""
        if isinstance(passed, Amqp091DecodedFrames):
            return msgspec.structs.replace(passed, ts_ns=0, frames=[Frame(HEARTBEAT_FRAME)])
        body = Amqp010Frame(amqp010_frame.encode_frame(0, amqp010_frame.BODY, 0, b""))
        return msgspec.structs.replace(passed, ts_ns=0, frames=[body], command_ids=[None])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, ts_ns: cython.longlong, before: bytes) -> cython.Py_ssize_t:
        """Write the beginning of a line; return its size."""
        self._reserve(_ROOM_FOR_KEYS + len(before))
        out: cython.p_uchar = self._buffer
        at: cython.Py_ssize_t = put_bytes(out, self._at, _START)
        at = put_signed(out, at, ts_ns)
        at = put_bytes(out, at, before)
        size: cython.Py_ssize_t = at - self._at
        self._at = at
        return size

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin_alike(self, model: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Copy the beginning of an existing line; return its size."""
        self._reserve(_ROOM_FOR_KEYS + size)
        out: cython.p_uchar = self._buffer
        at: cython.Py_ssize_t = self._at
        if not cython.compiled:
            out[at : at + size] = out[model : model + size]
        else:
            memcpy(out + at, out + model, size)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
        self._at = at + size
        return size

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
    def _add(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, behind: bytes) -> cython.Py_ssize_t:
        """Add a line from its channel on; return 1, or 0 if the frame at `data[start:end]` is unusual."""
        p: cython.p_const_uchar = data
        payload: cython.Py_ssize_t = end - start - 8
        kind: cython.int = p[start]
        index: cython.int
        if kind == 3 or kind == 8:
            self._reserve(_ROOM_FOR_KEYS + len(behind))
        elif payload > MAX_PAYLOAD:
            return 0
        else:
            self._reserve(_ROOM_FOR_KEYS + len(behind) + payload * _GROWTH)
        out: cython.p_uchar = self._buffer
        at: cython.Py_ssize_t = put_digits(out, self._at, p[start + 1] << 8 | p[start + 2])
        if kind == 1:
            index = _index_of(p, start)
            at = put_bytes(out, at, _METHOD_HEADS[index])
            at = _fields(out, at, data, start + 11, end - 1, _LAYOUTS[index], _METHOD_KEYS[index], _SECRETS[index])
            if at < 0:
                return 0
            at = put_bytes(out, at, _CLOSED_SIZE)
        elif kind == 2:
            if payload < 14:
                return 0
            at = put_bytes(out, at, _TYPE_HEADER)
            at = put_digits(out, at, long_long_at(p, start + 11))
            at = put_bytes(out, at, _PROPERTIES_KEY)
            at = _properties(out, at, data, start + 19, end - 1)
            if at < 0:
                return 0
            at = put_bytes(out, at, _CLOSED_SIZE)
        else:
            at = put_bytes(out, at, _TYPE_BODY if kind == 3 else _TYPE_HEARTBEAT)
            at = put_bytes(out, at, _SIZE)
        at = put_digits(out, at, payload)
        if kind == 3 and self._body:
            shown = encoded(excerpt(data[start + 7 : end - 1], self._body))
            self._at = at
            self._reserve(_ROOM_FOR_KEYS + len(behind) + len(shown))
            out = self._buffer
            at = put_bytes(out, at, _BODY_KEY)
            at = put_bytes(out, at, shown)
        self._at = put_bytes(out, at, behind)
        return 1

    @staticmethod
    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _arguments(
        out: cython.p_uchar,
        at: cython.Py_ssize_t,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        index: cython.int,
    ) -> cython.Py_ssize_t:
        """Write the arguments of the method in the frame at `data[start:end]` as an object; return its end, or -1.

        For compiled callers, which have made room.
        """
        out[at] = 123
        at = _fields(out, at + 1, data, start + 11, end - 1, _LAYOUTS[index], _METHOD_KEYS[index], _SECRETS[index])
        if at < 0:
            return -1
        out[at] = 125
        return at + 1

    @staticmethod
    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _headers(
        out: cython.p_uchar,
        at: cython.Py_ssize_t,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the entries of a table as an object, like `_arguments`."""
        return _table(out, at, data, position, end, 0)

    @cython.cfunc
    def _add_odd(self, passed: Amqp091DecodedFrames, frame: Frame) -> object:
        self._add_records(msgspec.structs.replace(passed, frames=[frame]))
        return None

    @cython.cfunc
    def _add_records(self, passed: Decoded) -> Any:
        """Add the lines of an item by way of its records."""
        count = 0
        for record in records_of(passed, body=self._body, has_both_legs=self._has_both_legs):
            line = record.to_json() + b"\n"
            self._reserve(len(line))
            self._at = put_bytes(self._buffer, self._at, line)
            count += 1
        return count


_LEAST_TIME, _LATEST_TIME = -(2**63), 2**63 - 1
_SAMPLE = b'0,"type":"heartbeat","size":0'
_SAMPLE_OF_0_10 = b'0,"type":"body","size":0'
_SAMPLE_FLAGS = b',"flags":""}'
_SAMPLE_START = b'{"ts_ns":0'


# --- fields: each function returns the end of its output in `out`, or -1 if its input is unusual


@cython.cfunc
@cython.exceptval(-2, check=False)
def _fields(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    layout: bytes,
    keys: tuple[bytes, ...],
    secret: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the arguments of a method, as `wire.decode_fields` reads them."""
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = layout
    count: cython.Py_ssize_t = len(layout)
    index: cython.Py_ssize_t
    code: cython.int
    bit: cython.int = 0
    size: cython.longlong
    key: bytes
    for index in range(count):
        code = program[index]
        key = keys[index]
        if code == 98:  # b
            if bit == 0:
                if position >= end:
                    return -1
                position += 1
            if len(key):
                at = put_bytes(out, at, key)
                at = put_bytes(out, at, _TRUE if (p[position - 1] >> bit) & 1 == 1 else _FALSE)
            bit = (bit + 1) & 7
            continue
        bit = 0
        size = field_size_at(p, position, end, code)
        if size < 0:
            return -1
        if len(key):
            at = put_bytes(out, at, key)
            if index == secret:
                at = put_bytes(out, at, _MASK)
            else:
                at = _field(out, at, data, position, size, code)
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
    is_first: cython.bint = True
    position += 2
    for index in range(count):
        if not flags & (0x8000 >> index):
            continue
        code = program[index]
        size = field_size_at(p, position, end, code)
        if size < 0:
            return -1
        if not is_first:
            out[at] = 44
            at += 1
        is_first = False
        key = _PROPERTY_KEYS[index]
        at = put_bytes(out, at, key)
        at = _field(out, at, data, position, size, code)
        if at < 0:
            return -1
        position += size
    return at if position == end else -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _field(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    size: cython.longlong,
    code: cython.int,
) -> cython.Py_ssize_t:
    """Write a field of `size` bytes, which are present."""
    p: cython.p_const_uchar = data
    if code == 115 or code == 117:
        return put_text(out, at, p, position + 1, position + size)
    if code == 83:
        return put_text(out, at, p, position + 4, position + size)
    if code == 70:
        return _table(out, at, data, position + 4, position + size, 0)
    if code == 113:
        return put_digits(out, at, long_long_at(p, position))
    if code == 104:
        return put_digits(out, at, p[position] << 8 | p[position + 1])
    if code == 108:
        return put_digits(out, at, long_at(p, position))
    return put_digits(out, at, p[position])


@cython.cfunc
@cython.exceptval(-2, check=False)
def _table(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.int,
) -> cython.Py_ssize_t:
    """Write the entries of a table as an object.

    Of entries with the same name the first is used, which is left to a record.
    """
    p: cython.p_const_uchar = data
    first: cython.Py_ssize_t = position
    count: cython.int = 0
    name: cython.Py_ssize_t
    size: cython.longlong
    if depth > _MAX_DEPTH:
        return -1
    out[at] = 123
    at += 1
    while position < end:
        name = position
        position += 1 + p[position]
        if position >= end or count == MAX_NAMES:
            return -1
        if count:
            if _is_known(p, first, name):
                return -1
            out[at] = 44
            at += 1
        count += 1
        at = put_text(out, at, p, name + 1, position)
        if at < 0:
            return -1
        out[at] = 58
        at += 1
        size = _value_size(p, position, end)
        if size < 0:
            return -1
        at = _value(out, at, data, position, size, depth)
        if at < 0:
            return -1
        position += 1 + size
    out[at] = 125
    return at + 1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _array(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.int,
) -> cython.Py_ssize_t:
    p: cython.p_const_uchar = data
    first: cython.Py_ssize_t = position
    size: cython.longlong
    if depth > _MAX_DEPTH:
        return -1
    out[at] = 91
    at += 1
    while position < end:
        if position > first:
            out[at] = 44
            at += 1
        size = _value_size(p, position, end)
        if size < 0:
            return -1
        at = _value(out, at, data, position, size, depth)
        if at < 0:
            return -1
        position += 1 + size
    out[at] = 93
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
        position += 1 + _value_size(p, position, name)
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_size(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
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
        return _table(out, at, data, position + 4, position + size, depth + 1)
    if kind == 65:  # A
        return _array(out, at, data, position + 4, position + size, depth + 1)
    return put_bytes(out, at, _fraction(kind, data[position : position + size]))


def _fraction(kind: int, data: bytes) -> bytes:
    """Write a floating-point number or a decimal."""
    if kind == 68:  # D
        scale, unscaled = struct.unpack(">Bi", data)
        return encoded(Decimal(f"{unscaled}E-{scale}"))
    return encoded(json_value(struct.unpack(">f" if kind == 102 else ">d", data)[0]))


# --- bytes


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _index_of(p: cython.p_const_uchar, start: cython.Py_ssize_t) -> cython.int:
    """Return the index of the method in a frame."""
    index_of: cython.p_const_uchar = _INDEX_OF
    return index_of[p[start + 8] * 256 + p[start + 10]]
