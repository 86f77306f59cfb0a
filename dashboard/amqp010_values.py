"""Dissection of 0-10 structs, maps, lists, arrays and scalars, with their byte ranges (section 7).

The input has already been decoded without an error, so sizes and type codes can be relied upon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from amqproxy.amqp010.properties import ReplyTo
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import ByteRanges, SequenceSet
from amqproxy.amqp010.structs import BY_CODE, Struct
from amqproxy.amqp010.wire import (
    BYTE_RANGES,
    CODES,
    REPLY_TO,
    SEQUENCE_NO,
    SEQUENCE_SET,
    TYPE_NAMES,
    XID,
    List,
    width_of,
)
from amqproxy.dashboard.field import MAX_ENTRIES, Field, filter_for, inner_path, rest_of_entries, shown
from amqproxy.taps.amqp010.record import plain

_MAP, _LIST, _ARRAY, _STRUCT32, _BIT = (CODES[name] for name in ("map", "list", "array", "struct32", "bit"))
_UNFILTERED = frozenset(CODES[name] for name in ("datetime", "char", "char-utf32"))

_OWN_NAMES = {
    SEQUENCE_NO: "sequence-no",
    SEQUENCE_SET: "sequence-set",
    BYTE_RANGES: "byte-ranges",
    REPLY_TO: "reply-to",
    XID: "xid",
}


def struct_fields(
    raw: bytes, at: int, end: int, cls: Any, names: list[str], paths: list[str], pack: int = 2
) -> Iterator[Field]:
    """Yield the packing flags of a struct and its fields up to `end`; bits are children of the flags."""
    layout: bytes = cls.layout
    present = (1 << len(layout)) - 1
    if pack:
        present = int.from_bytes(raw[at : at + pack], "little")
        bits = tuple(
            Field(
                name=names[place],
                start=at,
                end=at + pack,
                type="bit",
                value=bool(present >> place & 1),
                filter=filter_for(paths[place], bool(present >> place & 1)) if paths[place] else "",
            )
            for place, code in enumerate(layout)
            if code == _BIT
        )
        those_here = ", ".join(name for place, name in enumerate(names) if present >> place & 1)
        yield Field(name="packing flags", start=at, end=at + pack, type="bits", value=those_here, children=bits)
        at += pack
    for place, code in enumerate(layout):
        if present >> place & 1 and code != _BIT:
            field = value_field(raw, at, at, end, names[place], code, paths[place], ())
            yield field
            at = field.end


_PROPERTIES = {
    "application_headers": "headers",
    "routing_key": "routing_key",
    **{
        name: f"properties.{name}"
        for name in (
            *("content_type", "content_encoding", "delivery_mode", "priority"),
            *("correlation_id", "message_id", "user_id", "app_id"),
        )
    },
}
"""Filter expressions by property name; properties that are not listed have none."""


def coded_struct(raw: bytes, at: int, end: int, *, has_properties: bool = False) -> Iterator[Field]:
    """Yield a struct's code and its fields up to `end`: message properties, or the fields of any other struct."""
    code = int.from_bytes(raw[at : at + 2])
    cls = BY_CODE.get(code)
    name = f"0x{code:04x}" if cls is None else cls.name
    yield Field(name="code", start=at, end=at + 2, type="uint16", value=name)
    if cls is None:
        if at + 2 < end:
            yield Field(name="data", start=at + 2, end=end, type="bytes", value=plain(raw[at + 2 : end]))
        return
    paths = [_PROPERTIES.get(each, "") if has_properties else "" for each in cls.fields]
    yield from struct_fields(raw, at + 2, end, cls, list(cls.fields), paths, cls.pack)


def value_field(
    raw: bytes, start: int, at: int, end: int, name: str, code: int, path: str, before: tuple[Field, ...]
) -> Field:
    """Return the value of type `code` at `at` as a field that begins at `start`, with the fields `before` the value.

    Its struct ends at `end`.
    """
    if code in (_MAP, _LIST, _ARRAY, _STRUCT32, REPLY_TO, XID):
        return _nested(raw, start, at, name, code, path, before)
    width = width_of(code)
    if code == SEQUENCE_NO:
        width = 4
    if code in (SEQUENCE_SET, BYTE_RANGES):
        stop = at + 2 + int.from_bytes(raw[at : at + 2])
        kind = SequenceSet if code == SEQUENCE_SET else ByteRanges
        value: Any = plain(kind.from_bytes(raw[at + 2 : stop]))
    elif width is not None:
        stop = at + width
        value = int.from_bytes(raw[at:stop]) if code == SEQUENCE_NO else _decoded(code, raw[at:stop])
    else:
        begin = at + _size_width(code)
        stop = begin + int.from_bytes(raw[at:begin])
        value = _decoded(code, raw[at:stop])
    has_filter = path and code not in _UNFILTERED
    return Field(
        name=name,
        start=start,
        end=stop,
        type=type_name(code),
        value=shown(value),
        filter=filter_for(path, value) if has_filter else "",
    )


def type_name(code: int) -> str:
    """Return the specification's name of a type code."""
    return _OWN_NAMES.get(code) or TYPE_NAMES[code]


def _size_width(code: int) -> int:
    return 1 << ((code >> 4) & 3)


def _decoded(code: int, data: bytes) -> Any:
    """Decode one value as an item of a list, and return it in its JSON form."""
    return plain(List.from_bytes(b"\0\0\0\x01%c%b" % (code, data)).items[0].value)


def _nested(raw: bytes, start: int, at: int, name: str, code: int, path: str, before: tuple[Field, ...]) -> Field:
    """Return a map, list, array or struct as a field whose children are its length and its values."""
    width = 4
    if code == REPLY_TO or (code == XID and raw[at : at + 2] != b"\0\0"):
        width = 2
    begin = at + width
    end = begin + int.from_bytes(raw[at:begin])
    size = Field(name="length", start=at, end=begin, type=f"uint{width * 8}", value=end - begin)
    match code:
        case _ if code == _MAP:
            within = _counted(raw, begin, end, _entries(raw, begin + 4, end, path))
        case _ if code == _LIST:
            within = _counted(raw, begin, end, _items(raw, begin + 4, end))
        case _ if code == _ARRAY:
            within = _array(raw, begin, end)
        case _ if code == REPLY_TO:
            within = _plain_struct(raw, begin, end, ReplyTo)
        case _ if code == XID and width == 2:
            within = _plain_struct(raw, begin, end, Xid)
        case _:
            within = coded_struct(raw, begin, end)
    return Field(name=name, start=start, end=end, type=type_name(code), children=(*before, size, *within))


def _plain_struct(raw: bytes, at: int, end: int, cls: type[Struct]) -> Iterator[Field]:
    """Yield the fields of a struct that has no code."""
    return struct_fields(raw, at, end, cls, list(cls.fields), [""] * len(cls.fields), cls.pack)


def _counted(raw: bytes, at: int, end: int, within: Iterator[Field]) -> Iterator[Field]:
    """Yield a count and the values that it counts; some peers send neither for an empty map or list."""
    if at < end:
        yield Field(name="count", start=at, end=at + 4, type="uint32", value=int.from_bytes(raw[at : at + 4]))
        yield from within


def _entries(raw: bytes, at: int, end: int, path: str) -> Iterator[Field]:
    count = 0
    while at < end:
        count += 1
        if count > MAX_ENTRIES:
            yield rest_of_entries(at, end)
            return
        begin = at + 1 + raw[at]
        key = _decoded(CODES["str8"], raw[at:begin])
        label = key if isinstance(key, str) else json.dumps(key)
        named = Field(name="key", start=at, end=begin, type="str8", value=label)
        field = _typed(raw, at, begin, end, label, inner_path(path, key), (named,))
        yield field
        at = field.end


def _items(raw: bytes, at: int, end: int) -> Iterator[Field]:
    number = 0
    while at < end:
        if number >= MAX_ENTRIES:
            yield rest_of_entries(at, end)
            return
        field = _typed(raw, at, at, end, f"[{number}]", "", ())
        yield field
        at = field.end
        number += 1


def _typed(raw: bytes, start: int, at: int, end: int, name: str, path: str, before: tuple[Field, ...]) -> Field:
    """Return the value whose type code is at `at`."""
    code = raw[at]
    letter = Field(name="type", start=at, end=at + 1, type="uint8", value=TYPE_NAMES[code])
    return value_field(raw, start, at + 1, end, name, code, path, (*before, letter))


def _array(raw: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the type, the count and the values of an array; values of zero width are not listed."""
    if at == end:
        return
    code, count = raw[at], int.from_bytes(raw[at + 1 : at + 5])
    yield Field(name="type", start=at, end=at + 1, type="uint8", value=TYPE_NAMES[code])
    yield Field(name="count", start=at + 1, end=at + 5, type="uint32", value=count)
    at += 5
    for number in range(min(count, MAX_ENTRIES)):
        if at == end:
            return
        field = value_field(raw, at, at, end, f"[{number}]", code, "", ())
        yield field
        at = field.end
    if at < end:
        yield rest_of_entries(at, end)
