"""The fields of a 0-10 frame as JSON, written from its bytes: byte for byte the same as `taps.amqp010.record`.

Unusual frames, such as those with a value that is malformed, not UTF-8, or of a rare type, are left to their record.
This module may be compiled.
"""

from __future__ import annotations

import struct

from amqproxy.amqp010.frame import COMMAND
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, MessageProperties, ReplyTo
from amqproxy.taps.record import MASK, encoded, json_value

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.capture.json_text import put_text
    from amqproxy.compiled.byte_access import (
        long_at,
        long_long_at,
        put_bytes,
        put_digits,
        put_signed,
        signed_long_long_at,
    )

MAX_KEYS = 64
"""Entries beyond which a map is left to its frame's record."""

GROWTH = 9
"""Maximum bytes of JSON for each byte of a frame, for which callers make room.

A control character in an array of characters takes nine: six bytes, in quotes, followed by a comma.
"""

_MAX_DEPTH = cython.declare(cython.int, 128)
_COMMAND = cython.declare(cython.int, COMMAND)


def _keys(names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the text before each field's value, for a field that follows another."""
    return tuple(b"," + encoded(name) + b":" for name in names)


_LAYOUTS = cython.declare(tuple, tuple(cls.layout for cls in BY_INDEX))
_METHOD_KEYS = cython.declare(tuple, tuple(_keys(tuple(name for name, _ in cls.spoken)) for cls in BY_INDEX))
_SECRETS = cython.declare(tuple, tuple(cls.fields.index(cls.secret) if cls.secret else -1 for cls in BY_INDEX))
_MASK = cython.declare(bytes, encoded(MASK))
_DELIVERY = cython.declare(bytes, DeliveryProperties.layout)
_DELIVERY_KEYS = cython.declare(tuple, _keys(DeliveryProperties.fields))
_FRAGMENT = cython.declare(bytes, FragmentProperties.layout)
_FRAGMENT_KEYS = cython.declare(tuple, _keys(FragmentProperties.fields))
_MESSAGE = cython.declare(bytes, MessageProperties.layout)
_MESSAGE_KEYS = cython.declare(tuple, _keys(MessageProperties.fields))
_REPLY_TO = cython.declare(bytes, ReplyTo.layout)
_REPLY_TO_KEYS = cython.declare(tuple, _keys(ReplyTo.fields))
_TRUE = cython.declare(bytes, b"true")
_FALSE = cython.declare(bytes, b"false")
_NULL = cython.declare(bytes, b"null")
_HEX = cython.declare(bytes, b"0123456789abcdef")


# --- each function returns the end of its output in `out`, or -1 if its input is unusual


@cython.cfunc
@cython.exceptval(-2, check=False)
def put_arguments(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    kind: cython.int,
    index: cython.int,
) -> cython.Py_ssize_t:
    """Write the fields of the control or command with the segment `data[position:end]` as an object."""
    p: cython.p_const_uchar = data
    if kind == _COMMAND:
        if end - position < 4 or p[position + 2] != 1 or p[position + 3] > 1:
            return -1
        position += 4
    else:
        position += 2
    out[at] = 123
    at = _fields(out, at + 1, data, position, end, _LAYOUTS[index], _METHOD_KEYS[index], True, _SECRETS[index])
    if at < 0:
        return -1
    out[at] = 125
    return at + 1


@cython.cfunc
@cython.exceptval(-2, check=False)
def put_properties(
    out: cython.p_uchar, at: cython.Py_ssize_t, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write all properties of the header with the segment `data[position:end]` as one object."""
    p: cython.p_const_uchar = data
    start: cython.Py_ssize_t = at
    place: cython.Py_ssize_t
    before: cython.Py_ssize_t
    size: cython.longlong
    seen: cython.int = 0
    code: cython.int
    out[at] = 123
    at += 1
    while position < end:
        if end - position < 8:
            return -1
        size = long_at(p, position)
        code = p[position + 5]
        position += 4
        if size < 4 or size > end - position or p[position] != 4 or code > 3 or seen >> code & 1:
            return -1
        seen |= 1 << code
        place = position + size
        before = at
        if before > start + 1:
            out[at] = 44  # then the first of what follows has none
            at += 1
        if code == 1:
            at = _fields(out, at, data, position + 2, place, _DELIVERY, _DELIVERY_KEYS, False, -1)
        elif code == 3:
            at = _fields(out, at, data, position + 2, place, _MESSAGE, _MESSAGE_KEYS, False, -1)
        elif code == 2:
            at = _fields(out, at, data, position + 2, place, _FRAGMENT, _FRAGMENT_KEYS, False, -1)
        else:
            return -1
        if at < 0:
            return -1
        if before > start + 1 and at == before + 1:
            at = before  # it is empty
        position = place
    out[at] = 125
    return at + 1


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
    has_all_bits: cython.bint,
    secret: cython.int,
) -> cython.Py_ssize_t:
    """Write the fields in `data[position:end]`, after their packing flags, as `wire` reads them; without braces."""
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = layout
    count: cython.Py_ssize_t = len(layout)
    start: cython.Py_ssize_t = at
    index: cython.Py_ssize_t
    present: cython.uint
    code: cython.int
    size: cython.longlong
    key: bytes
    if end - position < 2:
        return -1
    present = p[position] | p[position + 1] << 8
    if present >> count:
        return -1
    position += 2
    for index in range(count):
        code = program[index]
        if not present >> index & 1 and not (code == 0xF1 and has_all_bits):
            continue
        key = keys[index]
        at = put_bytes(out, at, key) if at > start else _put_first(out, at, key)
        if code == 0xF1:
            at = put_bytes(out, at, _TRUE if present >> index & 1 else _FALSE)
            continue
        size = value_size_at(p, position, end, code)
        if size < 0:
            return -1
        at = put_bytes(out, at, _MASK) if index == secret else _value(out, at, data, position, size, code, 1)
        if at < 0:
            return -1
        position += size
    return at if position == end else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_first(out: cython.p_uchar, at: cython.Py_ssize_t, key: bytes) -> cython.Py_ssize_t:
    """Write a key without the comma before it."""
    if not cython.compiled:
        return put_bytes(out, at, key[1:])
    p: cython.p_const_uchar = key
    size: cython.Py_ssize_t = len(key) - 1
    memcpy(out + at, p + 1, size)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
    return at + size


@cython.cfunc
@cython.exceptval(check=False)
def value_size_at(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t, code: cython.int
) -> cython.longlong:
    """Return the size of a value, its size field included; -1 if it exceeds the end, or its type is reserved."""
    size: cython.longlong
    width: cython.Py_ssize_t
    if code < 0x80:
        size = 1 << (code >> 4)
    elif code < 0xB0 or (code >= 0xE1 and code <= 0xE3):  # with a size before it, of sets and reply-to in two bytes
        width = 2 if code >= 0xE1 else 1 << ((code >> 4) & 3)
        if width > end - position:
            return -1
        if width == 1:
            size = 1 + p[position]
        elif width == 2:
            size = 2 + (p[position] << 8 | p[position + 1])
        else:
            size = 4 + long_at(p, position)
    elif code == 0xE0:  # sequence-no
        size = 4
    elif code >= 0xF0:
        size = 0
    elif code >> 4 == 0xC:
        size = 5
    elif code >> 4 == 0xD:
        size = 9
    else:
        return -1
    return size if size <= end - position else -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def _value(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    size: cython.longlong,
    code: cython.int,
    depth: cython.int,
) -> cython.Py_ssize_t:
    """Write a value of `size` bytes, which are present; `depth` is one more than its number of enclosing containers."""
    p: cython.p_const_uchar = data
    end: cython.Py_ssize_t = position + size
    number: cython.longlong
    if code == 0x85 or code == 0x80:  # str8, vbin8
        return put_text(out, at, p, position + 1, end)
    if code == 0x95 or code == 0x90:  # str16, vbin16
        return put_text(out, at, p, position + 2, end)
    if code == 0x02:  # uint8
        return put_digits(out, at, p[position])
    if code == 0x12:  # uint16
        return put_digits(out, at, p[position] << 8 | p[position + 1])
    if code == 0x22 or code == 0xE0:  # uint32, sequence-no
        return put_digits(out, at, long_at(p, position))
    if code == 0x32:  # uint64
        return put_digits(out, at, long_long_at(p, position))
    if code == 0x38 or code == 0x31:  # datetime, int64
        return put_signed(out, at, signed_long_long_at(p, position))
    if code == 0x21:  # int32
        number = long_at(p, position)
        return put_signed(out, at, number - (number >> 31 << 32))
    if code == 0x11:  # int16
        number = p[position] << 8 | p[position + 1]
        return put_signed(out, at, number - (number >> 15 << 16))
    if code == 0x01:  # int8
        number = p[position]
        return put_signed(out, at, number - (number >> 7 << 8))
    if code == 0x08:  # boolean
        return put_bytes(out, at, _TRUE if p[position] else _FALSE)
    if code == 0x48:  # uuid
        out[at] = 34
        at = put_uuid(out, at + 1, p, position)
        out[at] = 34
        return at + 1
    if code == 0xE1:  # sequence-set
        return _ranges(out, at, p, position + 2, end)
    if code == 0xA8:
        return put_map(out, at, data, position + 4, end, depth, True)
    if code == 0xA9:
        return put_map(out, at, data, position + 4, end, depth, False)
    if code == 0xAA:
        return _array(out, at, data, position + 4, end, depth)
    if code == 0xE3:  # reply-to
        out[at] = 123
        at = _fields(out, at + 1, data, position + 2, end, _REPLY_TO, _REPLY_TO_KEYS, False, -1)
        if at < 0:
            return -1
        out[at] = 125
        return at + 1
    return _rare(out, at, data, position, end, code)


@cython.cfunc
@cython.exceptval(-2, check=False)
def _rare(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.int,
) -> cython.Py_ssize_t:
    """Write a value of a rare type."""
    p: cython.p_const_uchar = data
    place: cython.Py_ssize_t
    if code == 0x23 or code == 0x33:  # float, double
        return put_bytes(
            out, at, encoded(json_value(struct.unpack(">f" if code == 0x23 else ">d", data[position:end])[0]))
        )
    if code == 0xF1:  # bit
        return put_bytes(out, at, _TRUE)
    if code >= 0xF0:  # void
        return put_bytes(out, at, _NULL)
    if code == 0x27 or code == 0x86 or code == 0x96 or code == 0xAB or code == 0xC8 or code == 0xD8 or code >= 0xE0:
        return -1  # char-utf32, UTF-16, struct32, decimals, byte-ranges
    if 0x80 <= code < 0xB0:
        position += 1 << ((code >> 4) & 3)
    if code == 0x04 or code == 0x84 or code == 0x94:  # in ISO 8859-15, which is ASCII where it is UTF-8
        for place in range(position, end):
            if p[place] >= 0x80:
                return -1
    return put_text(out, at, p, position, end)


@cython.cfunc
@cython.exceptval(check=False)
def put_uuid(
    out: cython.p_uchar, at: cython.Py_ssize_t, p: cython.p_const_uchar, position: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the digits of a UUID, without quotes: 36 bytes."""
    digits: cython.p_const_uchar = _HEX
    index: cython.Py_ssize_t
    for index in range(16):
        if index == 4 or index == 6 or index == 8 or index == 10:
            out[at] = 45
            at += 1
        out[at] = digits[p[position + index] >> 4]
        out[at + 1] = digits[p[position + index] & 15]
        at += 2
    return at


@cython.cfunc
@cython.exceptval(check=False)
def _ranges(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a sequence-set, as pairs."""
    if (end - position) & 7:
        return -1
    out[at] = 91
    at += 1
    while position < end:
        out[at] = 91
        at = put_digits(out, at + 1, long_at(p, position))
        out[at] = 44
        at = put_digits(out, at + 1, long_at(p, position + 4))
        out[at] = 93
        at += 1
        position += 8
        if position < end:
            out[at] = 44
            at += 1
    out[at] = 93
    return at + 1


@cython.cfunc
@cython.exceptval(-2, check=False)
def put_map(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.int,
    are_named: cython.bint,
) -> cython.Py_ssize_t:
    """Write a map after its size, as an object, or unless its values `are_named` a list.

    Entries with the same key, and maps that look like their values, are left to a record.
    """
    p: cython.p_const_uchar = data
    first: cython.Py_ssize_t = position + 4
    key: cython.Py_ssize_t
    count: cython.longlong = 0
    size: cython.longlong
    out[at] = 123 if are_named else 91
    at += 1
    if depth > _MAX_DEPTH or 0 < end - position < 4:
        return -1
    if position < end:
        position = first
        while position < end:
            if count:
                out[at] = 44
                at += 1
            if are_named:
                key = position
                position += 1 + p[position]
                if position >= end or count == MAX_KEYS or (count and _is_known(p, first, key)):
                    return -1
                if depth > 1 and position - key == 9 and data[key + 1 : position] == b"repeated":
                    return -1
                at = put_text(out, at, p, key + 1, position)
                if at < 0:
                    return -1
                out[at] = 58
                at += 1
            count += 1
            size = value_size_at(p, position + 1, end, p[position])
            if size < 0 or _is_reserved(p[position]):
                return -1
            at = _value(out, at, data, position + 1, size, p[position], depth + 1)
            if at < 0:
                return -1
            position += 1 + size
        if count != long_at(p, first - 4):
            return -1
    out[at] = 125 if are_named else 93
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
    """Write an array after its size; one whose values have no bytes is unusual."""
    p: cython.p_const_uchar = data
    count: cython.longlong
    size: cython.longlong
    code: cython.int
    out[at] = 91
    at += 1
    if depth > _MAX_DEPTH or 0 < end - position < 5:
        return -1
    if position < end:
        code = p[position]
        count = long_at(p, position + 1)
        position += 5
        if code >= 0xF0 or _is_reserved(code):
            return -1
        while position < end:
            size = value_size_at(p, position, end, code)
            if size < 0 or count == 0:
                return -1
            at = _value(out, at, data, position, size, code, depth + 1)
            if at < 0:
                return -1
            count -= 1
            position += size
            if position < end:
                out[at] = 44
                at += 1
        if count:
            return -1
    out[at] = 93
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_reserved(code: cython.int) -> cython.bint:
    """Whether a type must not occur in a container: types of fields only never do on the wire."""
    return 0xB0 <= code < 0xC0 or 0xE0 <= code < 0xF0


@cython.cfunc
@cython.exceptval(check=False)
def _is_known(p: cython.p_const_uchar, position: cython.Py_ssize_t, key: cython.Py_ssize_t) -> cython.bint:
    """Whether an entry from `position` up to the one at `key` has its key; the entries are known to be valid."""
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = p[key]
    while position < key:
        if p[position] == size:
            i = 1
            while i <= size and p[position + i] == p[key + i]:
                i += 1
            if i > size:
                return True
        position += 1 + p[position]
        position += 1 + value_size_at(p, position + 1, key, p[position])
    return False
