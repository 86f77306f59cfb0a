"""Dissection of one 0-9-1 frame into a tree of fields with their byte ranges.

The fields of a frame, and those within each field, are adjacent without gaps; only bits share a byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import MAX_TABLE_DEPTH, Table
from amqproxy.capture.amqp091.secrets import masked
from amqproxy.dashboard.field import MAX_ENTRIES, MAX_TEXT, Field, filter_for, inner_path, rest_of_entries, shown
from amqproxy.taps.record import MASK, TYPES, excerpt, json_value

_TYPE_NAMES = {
    "o": "octet",
    "h": "short",
    "l": "long",
    "q": "long long",
    "s": "short string",
    "u": "short string",
    "S": "long string",
    "F": "table",
    "b": "bit",
}
_SIZES = {"o": 1, "h": 2, "l": 4, "q": 8}

_VALUE_TYPES = {
    "t": ("boolean", 1),
    "b": ("int8", 1),
    "B": ("uint8", 1),
    "s": ("int16", 2),
    "U": ("int16", 2),
    "u": ("uint16", 2),
    "I": ("int32", 4),
    "i": ("uint32", 4),
    "l": ("int64", 8),
    "L": ("int64", 8),
    "f": ("float", 4),
    "d": ("double", 8),
    "D": ("decimal", 5),
    "T": ("timestamp", 8),
    "V": ("void", 0),
    "S": ("long string", -1),
    "x": ("bytes", -1),
    "F": ("table", -1),
    "A": ("array", -1),
}
"""Types of table values by their letters: name and size in bytes; -1 if a length precedes the value."""

NAMES_IN_FILTERS = frozenset({"exchange", "destination", "queue", "routing_key", "consumer_tag"})
"""Arguments that filter expressions name directly, without `fields.`."""


def dissected(frame: Frame) -> tuple[bytes, list[Field]]:
    """Return the bytes of a frame, secrets masked, and its fields."""
    raw = masked(frame.raw)
    return raw, [
        Field(name="frame type", start=0, end=1, type="octet", value=TYPES[frame.kind]),
        Field(
            name="channel",
            start=1,
            end=3,
            type="short",
            value=frame.channel,
            filter=f"channel.number == {frame.channel}",
        ),
        Field(name="size", start=3, end=7, type="long", value=frame.size),
        *_payload(frame, raw),
        Field(name="frame end", start=len(raw) - 1, end=len(raw), type="octet", value=0xCE),
    ]


def _payload(frame: Frame, raw: bytes) -> Iterator[Field]:
    end = len(raw) - 1
    if frame.size == 0:
        return
    try:
        if frame.kind == METHOD:
            frame.method  # noqa: B018 - raises if the method cannot be decoded
            yield from _method(frame, raw, end)
            return
        if frame.kind == HEADER:
            frame.header  # noqa: B018
            yield from _header(raw, end)
            return
    except ProtocolError as error:
        yield Field(name="malformed", start=7, end=end, type="bytes", value=error.reply_text)
        return
    name = "body" if frame.kind == BODY else "payload"
    yield Field(name=name, start=7, end=len(raw) - 1, type="bytes", value=excerpt(raw[7:end], MAX_TEXT))


def _method(frame: Frame, raw: bytes, end: int) -> Iterator[Field]:
    cls = BY_INDEX[frame.index]
    yield Field(name="class", start=7, end=9, type="short", value=cls.name.partition(".")[0])
    yield Field(
        name="method", start=9, end=11, type="short", value=cls.name, filter=f"method == {json.dumps(cls.name)}"
    )
    names = [spec_name(each) for each in cls.__struct_fields__]
    yield from _fields(raw, 11, names, cls.layout.decode(), cls.secret, "")


def _header(raw: bytes, end: int) -> Iterator[Field]:
    yield Field(name="class", start=7, end=9, type="short", value=int.from_bytes(raw[7:9]))
    yield Field(name="weight", start=9, end=11, type="short", value=int.from_bytes(raw[9:11]))
    size = int.from_bytes(raw[11:19])
    yield Field(
        name="body_size", start=11, end=19, type="long long", value=shown(size), filter=filter_for("size", size)
    )
    flags = int.from_bytes(raw[19:21])
    present = [place for place in range(len(Properties.layout)) if flags & 0x8000 >> place]
    names = [Properties.__struct_fields__[place] for place in present]
    yield Field(name="flags", start=19, end=21, type="short", value=names)
    layout = Properties.layout.decode()
    yield from _fields(raw, 21, names, "".join(layout[place] for place in present), "", "properties.")


def _fields(raw: bytes, at: int, names: Sequence[str], layout: str, secret: str, prefix: str) -> Iterator[Field]:
    """Yield the fields of a layout from `at` on: a method's arguments, or properties."""
    place = 0
    while place < len(layout):
        kind, name = layout[place], names[place]
        if kind == "b":
            bits = [names[place]]
            while place + len(bits) < len(layout) and layout[place + len(bits)] == "b" and len(bits) < 8:
                bits.append(names[place + len(bits)])
            yield from _bits(raw, at, bits)
            place += len(bits)
            at += 1
            continue
        field = _table_field(raw, at, name) if kind == "F" else _plain(raw, at, name, kind, prefix)
        if name == secret:
            field = Field(name=name, start=field.start, end=field.end, type=field.type, value=MASK)
        yield field
        at = field.end
        place += 1


def _bits(raw: bytes, at: int, names: Sequence[str]) -> Iterator[Field]:
    values = [bool(raw[at] >> place & 1) for place in range(len(names))]
    bits = tuple(
        Field(name=name, start=at, end=at + 1, type="bit", value=value, filter=filter_for(f"fields.{name}", value))
        for name, value in zip(names, values, strict=True)
    )
    if len(bits) == 1:
        yield bits[0]
    else:
        those_set = ", ".join(name for name, value in zip(names, values, strict=True) if value)
        yield Field(name="bits", start=at, end=at + 1, type="octet", value=those_set, children=bits)


def _plain(raw: bytes, at: int, name: str, kind: str, prefix: str) -> Field:
    value: Any
    if kind in _SIZES:
        end = at + _SIZES[kind]
        value = int.from_bytes(raw[at:end])
    else:
        begin = at + (4 if kind == "S" else 1)
        end = begin + int.from_bytes(raw[at:begin])
        value = json_value(raw[begin:end])
    path = f"{prefix}{name}" if prefix or name in NAMES_IN_FILTERS else f"fields.{name}"
    is_reserved = name.startswith("reserved_")
    return Field(
        name=name,
        start=at,
        end=end,
        type=_TYPE_NAMES[kind],
        value=shown(value),
        filter="" if is_reserved else filter_for(path, value),
    )


def _table_field(raw: bytes, at: int, name: str) -> Field:
    path = name if name in ("headers", "arguments") else f"fields.{name}"
    return _nested(raw, at, at, name, "F", path, [], 0)


def _nested(raw: bytes, start: int, at: int, name: str, kind: str, path: str, before: list[Field], depth: int) -> Field:
    """Return a table or an array whose length is at `at`; the field begins at `start`, where `before` lies.

    One that is nested more than `MAX_TABLE_DEPTH` deep has its octets as its value, as in records.
    """
    begin = at + 4
    end = begin + int.from_bytes(raw[at:begin])
    length = Field(name="length", start=at, end=begin, type="long", value=end - begin)
    type_name = "table" if kind == "F" else "array"
    if depth > MAX_TABLE_DEPTH:
        value = shown(json_value(raw[begin:end]))
        return Field(name=name, start=start, end=end, type=type_name, value=value)
    entries = _entries(raw, begin, end, path, depth) if kind == "F" else _items(raw, begin, end, depth)
    return Field(
        name=name,
        start=start,
        end=end,
        type=type_name,
        children=(*before, length, *entries),
    )


def _entries(raw: bytes, at: int, end: int, path: str, depth: int) -> Iterator[Field]:
    count = 0
    while at < end:
        count += 1
        if count > MAX_ENTRIES:
            yield rest_of_entries(at, end)
            return
        begin = at + 1 + raw[at]
        name = json_value(raw[at + 1 : begin])
        label = name if isinstance(name, str) else json.dumps(name)
        inner = inner_path(path, name)
        kind = chr(raw[begin])
        name_field = Field(name="name", start=at, end=begin, type="short string", value=label)
        field = _value(raw, at, begin, label, kind, inner, name_field, depth)
        yield field
        at = field.end


def _items(raw: bytes, at: int, end: int, depth: int) -> Iterator[Field]:
    number = 0
    while at < end:
        if number >= MAX_ENTRIES:
            yield rest_of_entries(at, end)
            return
        field = _value(raw, at, at, f"[{number}]", chr(raw[at]), "", None, depth)
        yield field
        at = field.end
        number += 1


def _value(raw: bytes, start: int, at: int, name: str, kind: str, path: str, named: Field | None, depth: int) -> Field:
    """Return the value whose type letter is at `at`; the field begins at `start`, with its name if it has one."""
    type_name, size = _VALUE_TYPES[kind]
    begin = at + 1
    if kind in "FA":
        letter = Field(name="type", start=at, end=begin, type="octet", value=kind)
        return _nested(raw, start, begin, name, kind, path, [*([named] if named else []), letter], depth + 1)
    end = begin + (size if size >= 0 else 4 + int.from_bytes(raw[begin : begin + 4]))
    entry = b"\x01v" + raw[at:end]
    value = json_value(Table.from_octets(entry).fields[0].value)
    if isinstance(value, Decimal):
        value = str(value)
    return Field(
        name=name,
        start=start,
        end=end,
        type=type_name,
        value=shown(value),
        filter=filter_for(path, value) if path and kind != "T" else "",
    )
