"""Common shape of the headers of one client's messages: a translated header is the template for the others."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.broker.amqp010.header_places import UUID_BYTES, UUID_TEXT, HeaderPlaces
from amqproxy.conversion.amqp010.message_properties import MILLISECONDS

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_long_at, put_number

PARTS = 5
"""Maximum number of fixed parts: before, between and after at most four variable fields."""

_NUMBER = 8

_LEAST = cython.declare(cython.ulonglong, MILLISECONDS)
_MOST_SECONDS = cython.declare(cython.ulonglong, (1 << 63) // 1000 - 1)
_MOST = cython.declare(cython.ulonglong, (1 << 63) - 1)
_UUID_TEXT = cython.declare(cython.int, UUID_TEXT)

_LATER = 1_000_000_007
"""Seconds between a timestamp and the other one with which a shape is tested."""

_OTHER_DIGITS = bytes.maketrans(b"0123456789abcdef", b"fedcba9876543210")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_alike(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    q: cython.p_const_uchar,
    to: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether the two have the same `size` bytes."""
    if not cython.compiled:
        return p[at : at + size] == q[to : to + size]
    return memcmp(p + at, q + to, size) == 0  # type: ignore[name-defined, operator, no-any-return]  # noqa: F821


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digit(character: cython.int) -> cython.int:
    """Return the value of a lower-case hexadecimal digit; -1 for another character."""
    if 48 <= character <= 57:
        return character - 48
    return character - 87 if 97 <= character <= 102 else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_dash(place: cython.int) -> cython.bint:
    """Return whether the text of a uuid has a dash at this place."""
    return place == 8 or place == 13 or place == 18 or place == 23


class HeaderShape:
    """Headers that differ only in body size, message-id and timestamp, with the template of their translation.

    `source` is one of them and `made` its translation; `places` and `made_places` are the offsets in both. A source
    `matches` if it is of this shape; `translated` returns what a translation would make of it. Only timestamps that
    both protocols can express, from 1973 on, are of a shape.
    """

    def __init__(self, source: bytes, places: HeaderPlaces, made: bytes, made_places: HeaderPlaces) -> None:
        self._source = source
        self._made = bytearray(made)
        self._id_at, self._is_text = places.id_at, places.id_size == UUID_TEXT
        self._seconds_at, self._milliseconds_at = places.seconds_at, places.milliseconds_at
        self._size_to, self._id_to = made_places.size_at, made_places.id_at
        self._seconds_to, self._milliseconds_to = made_places.seconds_at, made_places.milliseconds_at
        self._is_own = places.is_own
        self._last: bytes | None = None
        self._size = 0
        if not cython.compiled:
            self._starts, self._ends = [0] * PARTS, [0] * PARTS
        start = count = 0
        for hole, end in [*places.holes(), (len(source), len(source))]:
            self._starts[count], self._ends[count] = start, hole
            start = end
            count += 1
        self._parts = count

    def matches(self, data: bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Return whether the `size` bytes of `data` from `start` on are a header of this shape."""
        if size != len(self._source):
            return False
        p: cython.p_const_uchar = data
        q: cython.p_const_uchar = self._source
        i: cython.int
        at: cython.Py_ssize_t
        for i in range(self._parts):
            at = self._starts[i]
            if not is_alike(p, start + at, q, at, self._ends[i] - at):
                return False
        if not self._is_own:
            return True
        if self._is_text and not self._has_uuid(p, start + self._id_at):
            return False
        return (self._milliseconds_at < 0 and self._seconds_at < 0) or self._has_time(p, start)

    def _has_uuid(self, p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
        i: cython.int
        is_one: cython.bint = True
        for i in range(_UUID_TEXT):
            is_one = is_one and (p[at + i] == 45 if _is_dash(i) else _digit(p[at + i]) >= 0)
        return is_one

    def _has_time(self, p: cython.p_const_uchar, start: cython.Py_ssize_t) -> cython.bint:
        """Return whether the header has a timestamp that is translated as the template's was."""
        time: cython.ulonglong
        if self._milliseconds_at >= 0:
            time = long_long_at(p, start + self._milliseconds_at)
            if time > _MOST:
                return False
            if self._seconds_to >= 0 and (time % 1000 == 0) != (self._milliseconds_to < 0):
                return False  # only one of them has milliseconds, which 0-9-1 timestamps cannot hold
        else:
            time = long_long_at(p, start + self._seconds_at)
            if time > _MOST_SECONDS:
                return False
            time *= 1000
        is_late: cython.bint = time >= _LEAST
        return is_late

    def translated(self, data: bytes, start: cython.Py_ssize_t, body_size: cython.ulonglong) -> bytes:
        """Return the translation of a header that `matches`, for a body of `body_size` bytes.

        It is the same object as the last one if they are equal and the header has no id or timestamp.
        """
        if not self._is_own and self._last is not None and body_size == self._size:
            return self._last
        p: cython.p_const_uchar = data
        out: cython.p_uchar = self._made
        time: cython.ulonglong
        if self._size_to >= 0:
            put_number(out, self._size_to, body_size, 8)
        if self._id_to >= 0:
            self._put_id(p, start + self._id_at, out)
        if self._milliseconds_at >= 0:
            time = long_long_at(p, start + self._milliseconds_at)
        elif self._seconds_at >= 0:
            time = long_long_at(p, start + self._seconds_at) * 1000
        else:
            time = 0
        if self._milliseconds_to >= 0:
            put_number(out, self._milliseconds_to, time, 8)
        if self._seconds_to >= 0:
            put_number(out, self._seconds_to, time // 1000, 8)
        self._last = bytes(out[: len(self._made)])
        self._size = body_size
        return self._last

    def _put_id(self, p: cython.p_const_uchar, at: cython.Py_ssize_t, out: cython.p_uchar) -> None:
        """Write a uuid in its other form: text for bytes, and bytes for text."""
        to: cython.Py_ssize_t = self._id_to
        i: cython.int
        nibble: cython.int
        place: cython.int = 0
        if self._is_text:
            for i in range(16):
                if _is_dash(place):
                    place += 1
                out[to + i] = _digit(p[at + place]) << 4 | _digit(p[at + place + 1])
                place += 2
            return
        for i in range(32):
            if _is_dash(place):
                out[to + place] = 45
                place += 1
            nibble = p[at + (i >> 1)] & 15 if i & 1 else p[at + (i >> 1)] >> 4
            out[to + place] = 48 + nibble if nibble < 10 else 87 + nibble
            place += 1


def learnt(
    source: bytes, places: HeaderPlaces, made: bytes, made_places: HeaderPlaces, translate: Callable[[bytes], bytes]
) -> HeaderShape | None:
    """Return the shape of a translated header; None if it would translate another id or timestamp wrongly.

    The shape is tested with another id and timestamp.
    """
    is_timed = places.seconds_at >= 0 or places.milliseconds_at >= 0
    if (places.id_at >= 0) != (made_places.id_at >= 0):
        return None
    if is_timed != (made_places.seconds_at >= 0 or made_places.milliseconds_at >= 0):
        return None
    shape = HeaderShape(source, places, made, made_places)
    if not shape.matches(source, 0, len(source)):
        return None
    if places.is_own:
        other = _other(source, places)
        size = int.from_bytes(made[made_places.size_at : made_places.size_at + _NUMBER])
        if not shape.matches(other, 0, len(other)) or shape.translated(other, 0, size) != translate(other):
            return None
    return shape


def _other(source: bytes, places: HeaderPlaces) -> bytes:
    """Return a header of the same shape with another id and timestamp."""
    other = bytearray(source)
    start, end = places.id_at, places.id_at + places.id_size
    if places.id_size == UUID_TEXT:
        other[start:end] = other[start:end].translate(_OTHER_DIGITS)
    elif places.id_size == UUID_BYTES:
        other[start:end] = bytes([each ^ 0xFF for each in other[start:end]])
    for at, unit in ((places.seconds_at, 1), (places.milliseconds_at, 1000)):
        if at >= 0:
            time = int.from_bytes(other[at : at + _NUMBER])
            later = time + _LATER * unit if time < 1 << 62 else time - _LATER * unit
            other[at : at + _NUMBER] = (later % (1 << 64)).to_bytes(_NUMBER)
    return bytes(other)
