"""The walks over decoded frames, and over the fields of 0-9-1 and of 0-10 frames, that all writers of frames share.

No object is created for a frame. Unusual frames are written by way of their `Record`. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from typing import Any

import msgspec

from amqproxy.amqp010.frame import COMMAND
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import BY_INDEX as AMQP010_METHODS
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, MessageProperties
from amqproxy.amqp091.frame import Frame, index_table
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, records_of
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import NOTHING

if not cython.compiled:
    from amqproxy.capture.amqp010.json_fields import value_size_at
    from amqproxy.compiled.byte_access import field_size_at, long_at, put_bytes

MAX_PAYLOAD = 1024 * 1024
"""Payload size beyond which a method or header is written by way of its record."""

_ROOM = cython.declare(cython.Py_ssize_t, 4096)
"""Space for a line without its values: the names of arguments and properties, and numbers."""
_RESERVED, _SECRET = b" *"


def _codes(index: int) -> bytes:
    """Return the code of each field of a method in the output: a space if it is reserved, `*` if it is secret."""
    cls = BY_INDEX[index]
    codes = zip(cls.__struct_fields__, cls.layout, strict=True)
    return bytes(_RESERVED if f.startswith("reserved_") else _SECRET if f == cls.secret else code for f, code in codes)


_INDEX_OF = cython.declare(bytes, index_table())
_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in BY_INDEX))
_CODES = cython.declare(tuple, tuple(map(_codes, range(len(BY_INDEX)))))
_PROPERTIES = cython.declare(bytes, Properties.layout)
_PROPERTY_FLAGS = cython.declare(cython.int, 0xFFFF << (16 - len(Properties.layout)) & 0xFFFF)

PROPERTY_STRUCTS = (DeliveryProperties, FragmentProperties, MessageProperties)
"""The structs of a 0-10 header, whose codes are 1, 2 and 3."""

HEADER_FIELDS = tuple(name for cls in PROPERTY_STRUCTS for name in (*cls.fields, *[""] * (16 - len(cls.fields))))
"""The fields of a 0-10 header by number: those of each struct begin with a multiple of 16."""


def _packed_codes(index: int) -> bytes:
    """Return the code of each field of a control or command in the output: `*` if it is secret."""
    cls = AMQP010_METHODS[index]
    codes = zip(cls.fields, cls.layout, strict=True)
    return bytes(_SECRET if field == cls.secret else code for field, code in codes)


_AMQP010_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in AMQP010_METHODS))
_AMQP010_CODES = cython.declare(tuple, tuple(map(_packed_codes, range(len(AMQP010_METHODS)))))
_STRUCT_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in PROPERTY_STRUCTS))
_COMMAND = cython.declare(cython.int, COMMAND)
_BIT = cython.declare(cython.int, 0xF1)


@cython.cclass
class FrameWriter:
    """Base class of writers; `add` walks over the frames of a decoded item.

    Subclasses implement `_add` and `_add_amqp010`, which return 1, or 0 if the frame is unusual, and `_field` and
    `_packed_field`, which return the end of their output, negative if the frame is unusual.
    """

    def __init__(self, body: int = 0) -> None:
        self._body = body

    def add(self, passed: Decoded) -> int:
        """Add a decoded item; return the number of its frames or records."""
        count: cython.Py_ssize_t = 0
        item: Any = passed
        # By the exact class, since `isinstance` takes a third of a microsecond for a struct of another class.
        is_amqp091: cython.bint = type(item) is Amqp091DecodedFrames
        is_frames: cython.bint = is_amqp091 or type(item) is Amqp010DecodedFrames
        if not is_frames or item.note is not NOTHING or not self._begin(item):
            return int(self._add_records(item))
        frames = item.frames
        data: bytes
        if not is_amqp091:
            for frame, command_id in zip(frames, item.command_ids, strict=True):
                if not self._add_amqp010(frame, command_id):
                    self._add_records(item.at([count]))
                count += 1
        elif isinstance(frames, Amqp091Chunk):
            data = frames.data
            p: cython.p_const_uchar = data
            position: cython.Py_ssize_t = 0
            end: cython.Py_ssize_t = len(data)
            whole: cython.Py_ssize_t
            offset: cython.longlong = frames.offset
            while position < end:
                whole = 8 + long_at(p, position + 3)
                if not self._add(data, position, position + whole):
                    odd = Frame(data[position : position + whole], offset + position)
                    self._add_records(msgspec.structs.replace(item, frames=[odd]))
                position += whole
                count += 1
        else:
            for frame in frames:
                data = frame.raw
                if frame.lost or not self._add(data, 0, len(data)):
                    self._add_records(msgspec.structs.replace(item, frames=[frame]))
                count += 1
        self._end()
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, passed: DecodedFrames) -> cython.bint:
        """Prepare what the frames of an item share; return False if the item is unusual."""
        return True

    @cython.cfunc
    def _end(self) -> object:
        """Finish the item."""
        return None

    @cython.cfunc
    def _add_records(self, passed: Decoded) -> Any:
        """Add an item by way of its records; return their number."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Add the 0-9-1 frame at `data[start:end]`; return 1, or 0 if it is unusual."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_amqp010(self, frame: Amqp010Frame, command_id: object) -> cython.Py_ssize_t:
        """Add a 0-10 frame; return 1, or 0 if it is unusual."""
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _arguments(
        self,
        at: cython.Py_ssize_t,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        index: cython.int,
    ) -> cython.Py_ssize_t:
        """Write the arguments of a method, as `wire.StructDecoder` reads them."""
        p: cython.p_const_uchar = data
        layout: bytes = _LAYOUTS[index]
        shown: bytes = _CODES[index]
        program: cython.p_const_uchar = layout
        codes: cython.p_const_uchar = shown
        count: cython.Py_ssize_t = len(layout)
        field: cython.Py_ssize_t
        bit: cython.int = 0
        size: cython.Py_ssize_t
        for field in range(count):
            if program[field] == 98:  # b
                if bit == 0:
                    if position >= end:
                        return -1
                    position += 1
                if codes[field] != 32:
                    at = self._field(at, field, 98, data, position, p[position - 1] >> bit & 1)
                bit = (bit + 1) & 7
                continue
            bit = 0
            size = field_size_at(p, position, end, program[field])
            if size < 0:
                return -1
            if codes[field] != 32:
                at = self._field(at, field, codes[field], data, position, size)
                if at < 0:
                    return -1
            position += size
        return at if position == end else -1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _properties(
        self, at: cython.Py_ssize_t, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the properties of a content header, as `wire.StructDecoder` reads them."""
        p: cython.p_const_uchar = data
        program: cython.p_const_uchar = _PROPERTIES
        flags: cython.int = (p[position] << 8 | p[position + 1]) & _PROPERTY_FLAGS
        field: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        position += 2
        while flags:
            if flags & 0x8000:
                size = field_size_at(p, position, end, program[field])
                if size < 0:
                    return -1
                at = self._field(at, field, program[field], data, position, size)
                if at < 0:
                    return -1
                position += size
            flags = flags << 1 & 0xFFFF
            field += 1
        return at if position == end else -1

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
        """Write the field of number `field`, whose `size` bytes are present; the size of a bit is its value.

        The `code` is as in the method's layout, `*` for a secret.
        """
        return at

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _packed_arguments(
        self,
        at: cython.Py_ssize_t,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        kind: cython.int,
        index: cython.int,
    ) -> cython.Py_ssize_t:
        """Write the fields of the 0-10 control or command with the segment `data[position:end]`."""
        p: cython.p_const_uchar = data
        position += 2
        if kind == _COMMAND:
            if end - position < 2 or p[position] != 1 or p[position + 1] > 1:
                return -1
            position += 2
        return self._packed(at, data, position, end, _AMQP010_LAYOUTS[index], _AMQP010_CODES[index], 0)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _packed_properties(
        self, at: cython.Py_ssize_t, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the properties in all structs of the 0-10 header with the segment `data[position:end]`."""
        p: cython.p_const_uchar = data
        size: cython.longlong
        seen: cython.int = 0
        code: cython.int
        while position < end:
            if end - position < 8:
                return -1
            size = long_at(p, position)
            code = p[position + 5]
            position += 4
            if size < 4 or size > end - position or p[position] != 4 or not 1 <= code <= 3 or seen >> code & 1:
                return -1
            seen |= 1 << code
            layout: bytes = _STRUCT_LAYOUTS[code - 1]
            at = self._packed(at, data, position + 2, position + size, layout, layout, (code - 1) << 4)
            if at < 0:
                return -1
            position += size
        return at

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _packed(
        self,
        at: cython.Py_ssize_t,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        layout: bytes,
        shown: bytes,
        first: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the fields in `data[position:end]`, after their packing flags; number them from `first` on."""
        p: cython.p_const_uchar = data
        program: cython.p_const_uchar = layout
        codes: cython.p_const_uchar = shown
        count: cython.Py_ssize_t = len(layout)
        field: cython.Py_ssize_t
        present: cython.uint
        size: cython.longlong
        if end - position < 2:
            return -1
        present = p[position] | p[position + 1] << 8
        if present >> count:
            return -1
        position += 2
        for field in range(count):
            if program[field] == _BIT:
                at = self._packed_field(at, first + field, _BIT, data, position, present >> field & 1)
            elif present >> field & 1:
                size = value_size_at(p, position, end, program[field])
                if size < 0:
                    return -1
                at = self._packed_field(at, first + field, codes[field], data, position, size)
                if at < 0:
                    return -1
                position += size
        return at if position == end else -1

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
        """Write a field of 0-10 like `_field`; only bits are there without being present, with a size of 0."""
        return at


@cython.cclass
class FrameLines(FrameWriter):
    """Gathers lines, each with its line end, until they are taken.

    The lines of body frames contain their first `body` bytes; `has_both_legs` is as in `records_of`.
    """

    def __init__(self, body: int = 0, *, has_both_legs: bool = False) -> None:
        super().__init__(body)
        self._has_both_legs = has_both_legs
        self._buffer = bytearray(1 << 16)
        self._out = self._buffer
        self._head = bytearray()
        self._head_size = self._at = 0
        self._keys: tuple[bytes, ...] = ()

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

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, room: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Make room after the last line."""
        buffer: bytearray = self._buffer
        if len(buffer) - self._at < room:
            buffer.extend(bytes(max(room, len(buffer))))
            self._out = buffer
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _start(self, room: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Begin a line with the head that the item's lines share, and `room` for its values; return its end."""
        head: cython.p_uchar = self._head
        size: cython.Py_ssize_t = self._head_size
        self._reserve(_ROOM + size + room)
        if not cython.compiled:
            self._out[self._at : self._at + size] = head[:size]
        else:
            memcpy(self._out + self._at, head, size)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
        return self._at + size

    @cython.cfunc
    def _line(self, record: Any) -> bytes:
        """Return the line of a record."""
        return b""

    @cython.cfunc
    def _add_records(self, passed: Decoded) -> Any:
        count = 0
        for record in records_of(passed, body=self._body, has_both_legs=self._has_both_legs):
            line: bytes = self._line(record)
            self._reserve(len(line))
            self._at = put_bytes(self._out, self._at, line)
            count += 1
        return count


@cython.cfunc
@cython.exceptval(check=False)
def number_field(p: cython.p_const_uchar, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the number in `size` bytes."""
    number: cython.ulonglong = 0
    index: cython.Py_ssize_t
    for index in range(position, position + size):
        number = number << 8 | p[index]
    return number


@cython.cfunc
@cython.exceptval(check=False)
def method_index(p: cython.p_const_uchar, start: cython.Py_ssize_t) -> cython.int:
    """Return the index of the method in the frame at `start`."""
    index_of: cython.p_const_uchar = _INDEX_OF
    return index_of[p[start + 8] * 256 + p[start + 10]]
