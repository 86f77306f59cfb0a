"""The values of 0-10 fields as JSON, written from their bytes: byte for byte the same as `taps.amqp010.record`.

Unusual frames, such as those with a value that is malformed, not UTF-8, or of a rare type, are left to their record.
This module may be compiled.
"""

from __future__ import annotations

import struct

from amqproxy.taps.record import encoded, json_value

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
_EXCHANGE = cython.declare(bytes, b'"exchange":')
_ROUTING_KEY = cython.declare(bytes, b'"routing_key":')
_TRUE = cython.declare(bytes, b"true")
_FALSE = cython.declare(bytes, b"false")
_NULL = cython.declare(bytes, b"null")
_HEX = cython.declare(bytes, b"0123456789abcdef")


# --- each function returns the end of its output in `out`, or -1 if its input is unusual


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
def put_value(
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
        return _reply_to(out, at, p, position + 2, end)
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
def _reply_to(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a reply-to after its size: its packing flags, the exchange and the routing key."""
    present: cython.int
    bit: cython.int
    size: cython.longlong
    if end - position < 2 or p[position] > 3 or p[position + 1]:
        return -1
    present = p[position]
    position += 2
    out[at] = 123
    at += 1
    for bit in range(2):
        if not present >> bit & 1:
            continue
        size = value_size_at(p, position, end, 0x85)
        if size < 0:
            return -1
        if out[at - 1] != 123:
            out[at] = 44
            at += 1
        at = put_text(out, put_bytes(out, at, _ROUTING_KEY if bit else _EXCHANGE), p, position + 1, position + size)
        if at < 0:
            return -1
        position += size
    out[at] = 125
    return at + 1 if position == end else -1


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
            at = put_value(out, at, data, position + 1, size, p[position], depth + 1)
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
            at = put_value(out, at, data, position, size, code, depth + 1)
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
