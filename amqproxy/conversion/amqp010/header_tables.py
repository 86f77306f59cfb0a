"""Conversion between AMQP 0-10 maps and AMQP 0-9-1 tables; a missing type becomes the nearest one."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from amqproxy.amqp010.wire import Array as Array010
from amqproxy.amqp010.wire import Entry, List, Map
from amqproxy.amqp010.wire import Item as Item010
from amqproxy.amqp091.wire import Array, Field, Item, Table

_SAME = {
    "boolean": "t",
    "bit": "t",
    "int8": "b",
    "uint8": "B",
    "int16": "s",
    "uint16": "u",
    "int32": "I",
    "uint32": "i",
    "int64": "l",
    "float": "f",
    "double": "d",
    "void": "V",
    "char": "S",
    "str8": "S",
    "str8-latin": "S",
    "str16": "S",
    "str16-latin": "S",
}
"""0-10 types whose values are also 0-9-1 values."""

_BACK = {
    "t": "boolean",
    "b": "int8",
    "B": "uint8",
    "s": "int16",
    "U": "int16",
    "u": "uint16",
    "I": "int32",
    "i": "uint32",
    "l": "int64",
    "L": "int64",
    "f": "float",
    "d": "double",
    "T": "datetime",
    "V": "void",
    "x": "vbin32",
}

MOST_TEXT = 65_535
"""Maximum length of a str16, in bytes."""


def table_of(headers: Map) -> Table:
    """Convert a map to a table; the last of two entries with one key counts, as in Qpid."""
    last = {entry.key: entry for entry in headers.entries}
    return Table([Field(entry.key, *_to_091(entry.type, entry.value)) for entry in last.values()])


def map_of(table: Table) -> Map:
    """Convert a table to a map."""
    return Map([_entry(field) for field in table.fields])


def lost_in_table(headers: Map) -> Map | None:
    """Return the entries whose type or value a table would not preserve; `None` if there are none."""
    entries = [
        entry for entry in headers.entries if _to_010(*_to_091(entry.type, entry.value)) != (entry.type, entry.value)
    ]
    return Map(entries) if entries else None


def merged(table: Table, lost: Map) -> Map:
    """Convert a table to a map, restoring the `lost` entries whose converted forms are unchanged."""
    before = {entry.key: entry for entry in lost.entries}
    entries = []
    for field in table.fields:
        entry = before.get(field.name)
        is_same = entry is not None and _to_091(entry.type, entry.value) == (field.type, field.value)
        entries.append(entry if is_same and entry is not None else _entry(field))
    return Map(entries)


def _entry(field: Field) -> Entry:
    return Entry(field.name, *_to_010(field.type, field.value))


def _to_091(type_: str, value: Any) -> Item:
    same = _SAME.get(type_)
    if same is not None:
        return Item(same, value)
    special = _SPECIAL.get(type_)
    if special is not None:
        return special(value)
    if value is None:  # of an unspecified type without bytes
        return Item("V", None)
    return Item("x", bytes(value))  # binary of any width, and unspecified types


def _uint64(value: int) -> Item:
    return Item("l", value) if value < 1 << 63 else Item("S", str(value))


def _datetime(value: int) -> Item:
    return Item("T" if value >= 0 else "l", value)  # a 0-9-1 timestamp has no sign


def _text(value: str) -> Item:
    """Convert a text; a lone surrogate of UTF-16 or UTF-32 keeps the bytes that UTF-8 would have."""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        value = value.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    return Item("S", value)


def _decimal(value: Decimal) -> Item:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)))
    unscaled = -unscaled if sign else unscaled
    fits = isinstance(exponent, int) and -255 <= exponent <= 0 and -(1 << 31) <= unscaled < 1 << 31
    return Item("D", value) if fits else Item("S", str(value))


def _map(value: Map) -> Item:
    return Item("F", table_of(value))


def _list(value: List) -> Item:
    return Item("A", Array([_to_091(item.type, item.value) for item in value.items]))


def _array(value: Array010) -> Item:
    return Item("A", Array([_to_091(value.type, each) for each in value.values]))


_SPECIAL: dict[str, Callable[[Any], Item]] = {
    "uint64": _uint64,
    "datetime": _datetime,
    "char-utf32": _text,
    "str8-utf16": _text,
    "str16-utf16": _text,
    "dec32": _decimal,
    "dec64": _decimal,
    "map": _map,
    "list": _list,
    "array": _array,
    "uuid": lambda value: Item("S", str(value)),
    "struct32": lambda value: Item("x", value.encode()),
}


def _to_010(type_: str, value: Any) -> Item010:
    if type_ == "S":
        data = value.encode("utf-8", "surrogateescape")
        return Item010("str16", value) if len(data) <= MOST_TEXT else Item010("vbin32", data)
    if isinstance(value, bytes):  # also a table or array below the deepest decoded level
        return Item010("vbin32", value)
    if type_ == "F":
        return Item010("map", map_of(value))
    if type_ == "A":
        return Item010("list", List([_to_010(item.type, item.value) for item in value.items]))
    if type_ == "D":
        exponent = value.as_tuple().exponent
        return Item010("dec64" if abs(value.scaleb(-exponent)) >= 1 << 31 else "dec32", value)
    if type_ == "T" and value >= 1 << 63:
        return Item010("uint64", value)
    return Item010(_BACK[type_], value)
