"""Offsets of the header fields in which one client's messages differ: body size, message-id and timestamp."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

UUID_BYTES, UUID_TEXT = 16, 36
"""Bytes of a message-id that is a uuid: binary in 0-10, and its text in 0-9-1."""

_NUMBER = 8

_DELIVERY, _MESSAGE = b"\x04\x01", b"\x04\x03"
"""Struct codes of delivery-properties and message-properties."""

_FIELDS_AT = 8
"""Offset of a struct's fields, after its size, its code and its packing flags."""

_PRIORITY, _DELIVERY_MODE, _TTL, _TIMESTAMP = 8, 16, 32, 64
_CONTENT_LENGTH, _MESSAGE_ID = 1, 2
"""Packing flags of delivery-properties, and of message-properties."""

_ORIGINAL = b"\x0bx-amqp-0-10x"
"""Beginning of the header that holds what 0-9-1 cannot express; see `message_conversion`."""

_SIZE_AT, _FLAGS_AT, _PROPERTIES_AT = 4, 12, 14
"""Offsets of the body size, the property flags and the properties in a 0-9-1 content header."""

_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _MODE, _LEVEL = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _ID, _TIME, _MORE = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0001


class HeaderPlaces:
    """Offsets of the variable fields in a header, -1 for a field that is absent.

    `size_at` is the offset of the body size, `id_at` that of the message-id, with its `id_size`, if it is a uuid. A
    timestamp is in seconds, in milliseconds, or both.
    """

    __slots__ = ("id_at", "id_size", "milliseconds_at", "seconds_at", "size_at")

    def __init__(self) -> None:
        self.size_at = self.id_at = self.seconds_at = self.milliseconds_at = -1
        self.id_size = 0

    @property
    def is_own(self) -> bool:
        """Whether the header has a message-id or a timestamp, which a message mostly has for itself alone."""
        return self.id_at >= 0 or self.seconds_at >= 0 or self.milliseconds_at >= 0

    def holes(self) -> list[tuple[int, int]]:
        """Return the start and end offsets of all variable fields, in order."""
        found = [(self.id_at, self.id_at + self.id_size)]
        found += [(at, at + _NUMBER) for at in (self.size_at, self.seconds_at, self.milliseconds_at)]
        return sorted([hole for hole in found if hole[0] >= 0])

    def blank(self, data: bytes) -> bytes:
        """Return the header with its variable fields zeroed."""
        blank = bytearray(data)
        for start, end in self.holes():
            blank[start:end] = bytes(end - start)
        return bytes(blank)


def header_places(data: bytes) -> HeaderPlaces:
    """Return the offsets in a header segment, which need not be well-formed."""
    places = HeaderPlaces()
    _look_into_structs(data, 0, len(data), places)
    return places


def _look_into_structs(data: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, places: HeaderPlaces) -> None:
    while at + _FIELDS_AT <= end:
        code, flags = data[at + 4 : at + 6], data[at + 6]
        following: cython.Py_ssize_t = at + 4 + int.from_bytes(data[at : at + 4])
        if code == _DELIVERY and flags & _TIMESTAMP:
            before = bool(flags & _PRIORITY) + bool(flags & _DELIVERY_MODE) + (_NUMBER if flags & _TTL else 0)
            place = at + _FIELDS_AT + before
            if place + _NUMBER <= end:
                places.milliseconds_at = place
        elif code == _MESSAGE:
            place = at + _FIELDS_AT
            if flags & _CONTENT_LENGTH and place + _NUMBER <= end:
                places.size_at = place
                place += _NUMBER
            if flags & _MESSAGE_ID and place + UUID_BYTES <= end:
                places.id_at, places.id_size = place, UUID_BYTES
        at = following


def content_header_places(data: bytes) -> HeaderPlaces:
    """Return the offsets in the payload of a well-formed content header."""
    places = HeaderPlaces()
    places.size_at = _SIZE_AT
    flags = int.from_bytes(data[_FLAGS_AT:_PROPERTIES_AT])
    at: cython.Py_ssize_t = _PROPERTIES_AT
    if flags & _MORE:
        return places
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            at += 1 + data[at]
    if flags & _HEADERS:
        end = at + 4 + int.from_bytes(data[at : at + 4])
        places.milliseconds_at = _milliseconds_at(data, at, end)
        at = end
    at += bool(flags & _MODE) + bool(flags & _LEVEL)
    for flag in (_CORRELATION_ID, _REPLY_TO, _EXPIRATION):
        if flags & flag:
            at += 1 + data[at]
    if flags & _ID:
        if data[at] == UUID_TEXT:
            places.id_at, places.id_size = at + 1, UUID_TEXT
        at += 1 + data[at]
    if flags & _TIME:
        places.seconds_at = at
    return places


def _milliseconds_at(data: bytes, start: int, end: int) -> int:
    """Return the offset of the milliseconds that 0-9-1 cannot express in a table's last field, or -1."""
    field = data.rfind(_ORIGINAL, start, end)
    at = field + len(_ORIGINAL) + 4
    if field < 0 or at + int.from_bytes(data[at - 4 : at]) != end:
        return -1
    lost = HeaderPlaces()
    _look_into_structs(data, at, end, lost)
    return lost.milliseconds_at
