"""Types of AMQP 0-10 (section 7): fields of structs, and the values of maps, lists and arrays.

A type's code is the specification's; types without one have a code in a reserved range here (`SEQUENCE_NO` and those
after it), which does not occur on the wire. Text may be any bytes: invalid UTF-8 is kept as surrogates.

Everything is checked when it is first decoded, so that an existing map is always valid, and maps, lists and arrays
encode to the very bytes they came from. If peers send a value in several forms (a boolean of 7, an array of no bytes),
each form is accepted. A value that overruns or does not fill its container raises `CommandInvalid`, with the offset;
for a control, `frame` converts that to a `FramingError`.

The file stays whole, because the containers decode themselves by the functions that make them, and the compiler makes C
calls only between functions of one file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID, SafeUUID

from amqproxy.amqp010.errors import CommandInvalid, IllegalArgument
from amqproxy.amqp010.sequence import ByteRanges, SequenceSet
from amqproxy.compiled.decode_cache import DecodeCache
from amqproxy.compiled.struct_slots import blank_struct, places_of, slots_of

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, long_long_at, signed_long_long_at
    from amqproxy.compiled.struct_slots import put_field

MAX_DEPTH = 128
"""Maximum nesting depth of maps, lists, arrays and structs."""

MAX_EMPTY_VALUES = 1_024
"""Maximum total number of array values without bytes in a struct: nothing else limits them, and each takes
microseconds to convert or record.
"""
_MAX_EMPTY_VALUES = cython.declare(cython.longlong, MAX_EMPTY_VALUES)

CODES: dict[str, int] = {
    "bin8": 0x00, "int8": 0x01, "uint8": 0x02, "char": 0x04, "boolean": 0x08,
    "bin16": 0x10, "int16": 0x11, "uint16": 0x12,
    "bin32": 0x20, "int32": 0x21, "uint32": 0x22, "float": 0x23, "char-utf32": 0x27,
    "bin64": 0x30, "int64": 0x31, "uint64": 0x32, "double": 0x33, "datetime": 0x38,
    "bin128": 0x40, "uuid": 0x48, "bin256": 0x50, "bin512": 0x60, "bin1024": 0x70,
    "vbin8": 0x80, "str8-latin": 0x84, "str8": 0x85, "str8-utf16": 0x86,
    "vbin16": 0x90, "str16-latin": 0x94, "str16": 0x95, "str16-utf16": 0x96,
    "vbin32": 0xA0, "map": 0xA8, "list": 0xA9, "array": 0xAA, "struct32": 0xAB,
    "bin40": 0xC0, "dec32": 0xC8, "bin72": 0xD0, "dec64": 0xD8, "void": 0xF0, "bit": 0xF1,
}  # fmt: skip
"""Types with a code, by the specification's name."""

SEQUENCE_NO, SEQUENCE_SET, BYTE_RANGES, REPLY_TO, XID = 0xE0, 0xE1, 0xE2, 0xE3, 0xE4

FIELD_CODES = CODES | {"sequence-no": SEQUENCE_NO, "sequence-set": SEQUENCE_SET, "byte-ranges": BYTE_RANGES}
"""Types of fields, except structs."""

_NAMES = {code: name for name, code in CODES.items()}
TYPE_NAMES: tuple[str, ...] = tuple(_NAMES.get(code, f"0x{code:02x}") for code in range(256))
"""Name of each type; for an unspecified one, its code in hexadecimal."""

_VARIABLE = cython.declare(cython.int, 0xFE)
_RESERVED = cython.declare(cython.int, 0xFF)


def _width(code: int) -> int:
    """Return the width of a value, from the type's code alone, known or not (section 5.2)."""
    if code < 0x80:
        return int(1 << (code >> 4))
    if code < 0xB0:
        return 0xFE
    return {0xC: 5, 0xD: 9, 0xF: 0}.get(code >> 4, 0xFF)


def width_of(code: int) -> int | None:
    """Return the width of each value of a type; `None` if it varies, or the code is reserved."""
    width = _width(code)
    return None if width >= 0xFE else width


_WIDTHS = cython.declare(bytes, bytes(map(_width, range(256))))

_NUMBERS = {
    CODES[name]: struct.Struct(letter)
    for name, letter in (
        ("int8", ">b"), ("uint8", ">B"), ("int16", ">h"), ("uint16", ">H"), ("int32", ">i"), ("uint32", ">I"),
        ("int64", ">q"), ("uint64", ">Q"), ("datetime", ">q"), ("float", ">f"), ("double", ">d"),
    )
} | {SEQUENCE_NO: struct.Struct(">I")}  # fmt: skip

_TEXTS = {
    CODES["str8"]: ("utf-8", "surrogateescape"), CODES["str16"]: ("utf-8", "surrogateescape"),
    CODES["str8-latin"]: ("iso8859-15", "strict"), CODES["str16-latin"]: ("iso8859-15", "strict"),
    CODES["str8-utf16"]: ("utf-16-be", "surrogatepass"), CODES["str16-utf16"]: ("utf-16-be", "surrogatepass"),
}  # fmt: skip

_CHAR, _BOOLEAN, _CHAR_UTF32, _UUID = CODES["char"], CODES["boolean"], CODES["char-utf32"], CODES["uuid"]
_MAP, _LIST, _ARRAY, _STRUCT32 = CODES["map"], CODES["list"], CODES["array"], CODES["struct32"]
_DEC32, _DEC64, _VOID, _BIT = CODES["dec32"], CODES["dec64"], CODES["void"], CODES["bit"]


class Entry(NamedTuple):
    """One entry of a map: its key, the name of its value's type, and the value."""

    key: str
    type: str
    value: Any


class Item(NamedTuple):
    """One item of a list: the name of its type, and its value."""

    type: str
    value: Any


class UnknownStruct(NamedTuple):
    """An unspecified struct: its code (class, then struct), and the bytes after it."""

    code: int
    data: bytes

    def encode(self) -> bytes:
        """Return the struct with its size and its code."""
        return (len(self.data) + 2).to_bytes(4) + self.code.to_bytes(2) + self.data


class Map(Mapping[str, Any]):
    """A map: an immutable mapping that keeps the type of every value.

    A value of a mapping gets the type that Qpid's clients give it; an `Entry` has its given type. `entries` lists all
    in order, including duplicate keys; a lookup finds the last entry of a key, as in Qpid.
    """

    __slots__ = ("_encoded", "_entries", "_values")

    def __init__(self, entries: Mapping[str, Any] | Iterable[Entry] = ()) -> None:
        if isinstance(entries, Map):
            listed, encoded = entries.entries, entries.encoded
        else:
            if isinstance(entries, Mapping):
                listed = tuple([Entry(key, *_typed(value)) for key, value in entries.items()])
            else:
                listed = tuple(entries)
            pieces = [encode_value(CODES["str8"], key) + _tagged(type_, value) for key, type_, value in listed]
            encoded = len(listed).to_bytes(4) + b"".join(pieces)
        self._entries: tuple[Entry, ...] | None = listed
        self._encoded: bytes = encoded
        self._values: dict[str, Any] | None = None

    @classmethod
    def from_bytes(cls, data: bytes, offset: int = 0) -> Map:
        """Return the map in `data` (a count and entries, without a size in front), after checking it; it is at
        `offset`.
        """
        _reset()
        _check_entries(data, 0, len(data), True, 1, offset)
        return _map_of_checked(data)

    @property
    def encoded(self) -> bytes:
        """Encoded count and entries, without the size in front; some peers send b"" for an empty map."""
        return self._encoded

    @property
    def entries(self) -> tuple[Entry, ...]:
        if self._entries is None:
            self._entries = tuple(_map_entries(self._encoded))
        return self._entries

    @property
    def values_by_key(self) -> Mapping[str, Any]:
        if self._values is None:
            self._values = {key: value for key, _, value in self.entries}
        return self._values

    def __getitem__(self, key: str) -> Any:
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Map):
            return self._encoded == other._encoded
        if isinstance(other, Mapping):
            return dict(self) == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._encoded)

    def __repr__(self) -> str:
        return f"Map({dict(self)!r})"


class List(Sequence[Any]):
    """A list: an immutable sequence that keeps the type of every value, made like a `Map`."""

    __slots__ = ("_encoded", "_items")

    def __init__(self, values: Iterable[Any] = ()) -> None:
        items = tuple([value if isinstance(value, Item) else _typed(value) for value in values])
        self._items: tuple[Item, ...] | None = items
        self._encoded: bytes = len(items).to_bytes(4) + b"".join([_tagged(type_, value) for type_, value in items])

    @classmethod
    def from_bytes(cls, data: bytes, offset: int = 0) -> List:
        """Return the list in `data` (a count and items, without a size in front), after checking it; it is at
        `offset`.
        """
        _reset()
        _check_entries(data, 0, len(data), False, 1, offset)
        return _list_of_checked(data)

    @property
    def encoded(self) -> bytes:
        """Encoded count and items, without the size in front."""
        return self._encoded

    @property
    def items(self) -> tuple[Item, ...]:
        if self._items is None:
            self._items = tuple(_list_items(self._encoded))
        return self._items

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [item.value for item in self.items[index]]
        return self.items[index].value

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, List):
            return self._encoded == other._encoded
        if isinstance(other, (list, tuple)):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._encoded)

    def __repr__(self) -> str:
        return f"List({list(self)!r})"


class Array(Sequence[Any]):
    """An array: an immutable sequence of values of one type, by its name.

    Broker-J sends empty ones without any bytes, which have no type and no values: `type` is "" then.
    """

    __slots__ = ("_encoded", "_values", "type")

    def __init__(self, type_: str, values: Iterable[Any] = ()) -> None:
        kept = tuple(values)
        if not type_ and kept:
            raise ValueError("an array with values has a type")
        self.type = type_
        self._values: tuple[Any, ...] | None = kept
        self._encoded: bytes = b""
        if type_:
            code = code_of(type_)
            encoded = b"".join([encode_value(code, value) for value in kept])
            if _width(code) == 0 and len(kept) > MAX_EMPTY_VALUES:
                raise ValueError(f"an array of {type_} holds {MAX_EMPTY_VALUES} values, this one has {len(kept)}")
            self._encoded = bytes((code,)) + len(kept).to_bytes(4) + encoded

    @classmethod
    def from_bytes(cls, data: bytes, offset: int = 0) -> Array:
        """Return the array in `data` (type, count and values, without a size), after checking it; it is at `offset`."""
        _reset()
        _check_array(data, 0, len(data), 1, offset)
        return _array_of_checked(data)

    @property
    def encoded(self) -> bytes:
        """Encoded type, count and values, without the size in front."""
        return self._encoded

    @property
    def values(self) -> tuple[Any, ...]:
        if self._values is None:
            self._values = tuple(_array_values(self._encoded))
        return self._values

    def __getitem__(self, index: Any) -> Any:
        return list(self.values[index]) if isinstance(index, slice) else self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array):
            return self._encoded == other._encoded
        if isinstance(other, (list, tuple)):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._encoded)

    def __repr__(self) -> str:
        return f"Array({self.type!r}, {list(self)!r})"


_new = cython.declare(object, object.__new__)


_MAP_PLACES = cython.declare(bytes, places_of(Map, ("_encoded", "_entries", "_values")))
_UUID_PLACES = cython.declare(bytes, places_of(UUID, ("int", "is_safe")))


@cython.cfunc
def _map_of_checked(data: bytes) -> Map:
    made: Map
    if cython.compiled and _MAP_PLACES:
        place: cython.p_const_uchar = _MAP_PLACES
        made = new_untracked(Map)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        fill_slot(made, place[0], data)  # type: ignore[name-defined]  # noqa: F821
        fill_slot(made, place[1], None)  # type: ignore[name-defined]  # noqa: F821
        fill_slot(made, place[2], None)  # type: ignore[name-defined]  # noqa: F821
        return made
    made = _new(Map)
    made._entries = made._values = None
    made._encoded = data
    return made


@cython.cfunc
def _list_of_checked(data: bytes) -> List:
    made: List = _new(List)
    made._items = None
    made._encoded = data
    return made


@cython.cfunc
def _array_of_checked(data: bytes) -> Array:
    made: Array = _new(Array)
    made._values = None
    made._encoded = data
    made.type = TYPE_NAMES[data[0]] if data else ""
    return made


# --- encoding ---------------------------------------------------------------------------------


def code_of(type_: str) -> int:
    """Return the code of a type, by its name or, if it has none, by its code in hexadecimal, as in `TYPE_NAMES`."""
    code = CODES.get(type_)
    if code is None:
        code = int(type_, 16) if type_.startswith("0x") else -1
        if not 0 <= code < 256 or TYPE_NAMES[code] != type_ or _width(code) == 0xFF:
            raise ValueError(f"{type_!r} is no type")
    return code


def _typed(value: Any) -> Item:
    """Return the type of a plain Python value, and the value as stored in a map or list."""
    if isinstance(value, Item):
        return value
    if isinstance(value, bool):
        return Item("boolean", value)
    if isinstance(value, int):
        return Item("int32" if -(2**31) <= value < 2**31 else "int64" if value < 2**63 else "uint64", value)
    if isinstance(value, str):
        return Item("str16", value)
    if value is None:
        return Item("void", None)
    if isinstance(value, float):
        return Item("double", value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Item("vbin32", bytes(value))
    if isinstance(value, UUID):
        return Item("uuid", value)
    if isinstance(value, Decimal):
        return Item("dec64", value)
    if isinstance(value, Mapping):
        return Item("map", value if isinstance(value, Map) else Map(value))
    if isinstance(value, Array):
        return Item("array", value)
    if isinstance(value, (list, tuple, List)) and not isinstance(value, UnknownStruct):
        return Item("list", value if isinstance(value, List) else List(value))
    if hasattr(value, "encode"):
        return Item("struct32", value)
    raise TypeError(f"no type of AMQP fits {type(value).__name__}")


def _tagged(type_: str, value: Any) -> bytes:
    code = code_of(type_)
    return bytes((code,)) + encode_value(code, value)


def encode_value(code: int, value: Any) -> bytes:
    """Encode a value, including its size if the type has one.

    Raise `ValueError`, `TypeError`, `OverflowError` or `struct.error` if it does not fit its type.
    """
    number = _NUMBERS.get(code)
    if number is not None:
        return number.pack(value)
    if code in _TEXTS:
        return _sized(code, value.encode(*_TEXTS[code]))
    if code == _BOOLEAN:
        return b"\x01" if value else b"\x00"
    if code in (_MAP, _LIST, _ARRAY):
        return _sized(code, _contained(code, value))
    if code in (_STRUCT32, REPLY_TO, XID):
        return bytes(value.encode())
    if code == SEQUENCE_SET:
        return _sized(0x90, value.to_bytes())
    if code == BYTE_RANGES:
        return _sized(0x90, value.to_bytes())
    if code == _UUID:
        return bytes(value.bytes)
    if code in (_DEC32, _DEC64):
        return _encode_decimal(value, 4 if code == _DEC32 else 8)
    if code == _CHAR:
        return _exactly(1, value.encode("iso8859-15"))
    if code == _CHAR_UTF32:
        return ord(value).to_bytes(4)
    width = _width(code)
    if width == 0xFE:
        return _sized(code, bytes(memoryview(value)))
    if width == 0:
        return b""
    return _exactly(width, bytes(memoryview(value)))


def _contained(code: int, value: Any) -> bytes:
    if code == _ARRAY:
        if not isinstance(value, Array):
            raise TypeError(f"an array is needed, not {type(value).__name__}")
        return value.encoded
    kind = Map if code == _MAP else List
    return value.encoded if isinstance(value, kind) else kind(value).encoded


def _sized(code: int, data: bytes) -> bytes:
    """Return the data with its size in front, in the width of the type."""
    try:
        return len(data).to_bytes(1 << ((code >> 4) & 3)) + data
    except OverflowError:
        raise ValueError(f"{len(data)} bytes do not fit a {TYPE_NAMES[code]}") from None


def _exactly(width: int, data: bytes) -> bytes:
    if len(data) != width:
        raise ValueError(f"{width} bytes are needed, not {len(data)}")
    return data


def _encode_decimal(value: Decimal, width: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -255:
        raise ValueError(f"{value} has no decimal form on the wire")
    mantissa = int("".join(map(str, digits))) * (-1 if sign else 1)
    if exponent > 0:
        if exponent > 20:  # more than any mantissa has, unless it is 0
            raise ValueError(f"{value} does not fit a decimal")
        mantissa *= 10**exponent
    return bytes((max(-exponent, 0),)) + mantissa.to_bytes(width, signed=True)


def encode_fields(layout: bytes, pack: int, values: Sequence[Any]) -> bytes:
    """Encode the packing flags, in `pack` bytes, and the present fields: those that are not `None`, or a set bit.

    The layout is a code for each field. Raise `ValueError`, `TypeError`, `OverflowError` or `struct.error` if a value
    does not fit its type.
    """
    flags = 0
    pieces = [b""]
    for index, (code, value) in enumerate(zip(layout, values, strict=True)):
        if code == _BIT:
            flags |= bool(value) << index
        elif value is not None:
            flags |= 1 << index
            pieces.append(encode_value(code, value))
        elif not pack:
            raise ValueError("a field is missing in a struct that has all of them")
    if pack:
        pieces[0] = flags.to_bytes(pack, "little")
    return b"".join(pieces)


# --- checking ---------------------------------------------------------------------------------


_field = cython.declare(cython.int, -1)
"""Field of the outermost struct that is being decoded, for errors."""

_empty_values = cython.declare(cython.longlong, 0)
"""Number of array values without bytes in it so far."""


@cython.cfunc
def _reset() -> object:
    """Reset the decoding state."""
    global _field, _empty_values
    _field = -1
    _empty_values = 0
    return None


def _at_fault() -> int | None:
    return _field if _field >= 0 else None


@cython.cfunc
def _overrun(what: str, needed: object, left: object, offset: int) -> object:
    raise CommandInvalid(f"{what} of {needed} bytes in {left} bytes", offset=offset, field_index=_at_fault())


@cython.cfunc
def _invalid(text: str, offset: int) -> object:
    raise CommandInvalid(text, offset=offset, field_index=_at_fault())


@cython.cfunc
@cython.exceptval(-1, check=False)
def _size_at(
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    offset: cython.longlong,
) -> cython.longlong:
    """Return the size at a place, `width` bytes wide; its data ends by `end`."""
    size: cython.longlong
    if width > end - position:
        _overrun("a size", width, end - position, offset + position)
    if width == 1:
        size = p[position]
    elif width == 2:
        size = p[position] << 8 | p[position + 1]
    else:
        size = long_at(p, position)
    if size > end - position - width:
        _overrun("a value", size, end - position - width, offset + position)
    return size


@cython.cfunc
@cython.exceptval(-1, check=False)
def _check_value(
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.int,
    depth: cython.int,
    offset: cython.longlong,
) -> cython.Py_ssize_t:
    """Check the value of a type at a place; return the place after it."""
    p: cython.p_const_uchar = data
    widths: cython.p_const_uchar = _WIDTHS
    width: cython.Py_ssize_t = widths[code]
    size: cython.longlong
    if width == _RESERVED:
        _invalid(f"type 0x{code:02x} is reserved", offset + position)
    if width != _VARIABLE:
        if width > end - position:
            _overrun("a value", width, end - position, offset + position)
        if code == 0x27 and long_at(p, position) > 0x10FFFF:
            _invalid("a char-utf32 that is no character", offset + position)
        return position + width
    width = 1 << ((code >> 4) & 3)
    size = _size_at(p, position, end, width, offset)
    position += width
    end = position + size
    if code == 0xA8 or code == 0xA9:
        _check_entries(data, position, end, code == 0xA8, depth + 1, offset)
    elif code == 0xAA:
        _check_array(data, position, end, depth + 1, offset)
    elif code == 0xAB:
        _struct_at(data, position, end, depth + 1, offset)
    elif (code == 0x86 or code == 0x96) and size & 1:
        _invalid(f"UTF-16 in {size} bytes", offset + position)
    return end


@cython.cfunc
def _too_deep(offset: int) -> object:
    text = f"maps, lists, arrays and structs nested more than {MAX_DEPTH} deep"
    raise IllegalArgument(text, offset=offset, field_index=_at_fault())


@cython.cfunc
@cython.exceptval(-1, check=False)
def _check_entries(
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    are_keyed: cython.bint,
    depth: cython.int,
    offset: cython.longlong,
) -> cython.int:
    """Check the entries of a map, or unless they `are_keyed` the items of a list."""
    p: cython.p_const_uchar = data
    count: cython.longlong
    found: cython.longlong = 0
    size: cython.Py_ssize_t
    if depth > 128:
        _too_deep(offset + position)
    if position == end:
        return 0
    if end - position < 4:
        _overrun("a count", 4, end - position, offset + position)
    count = long_at(p, position)
    position += 4
    while position < end:
        if are_keyed:
            size = p[position]
            if size + 2 > end - position:
                _overrun("a key", size, end - position - 1, offset + position)
            position += 1 + size
        position = _check_value(data, position + 1, end, p[position], depth, offset)
        found += 1
    if found != count:
        what = f"a map of {found} entries" if are_keyed else f"a list of {found} items"
        _invalid(f"{what} that has {count} by its count", offset + position)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _check_array(
    data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int, offset: cython.longlong
) -> cython.int:
    global _empty_values
    p: cython.p_const_uchar = data
    widths: cython.p_const_uchar = _WIDTHS
    count: cython.longlong
    index: cython.longlong
    code: cython.int
    width: cython.longlong
    if depth > 128:
        _too_deep(offset + position)
    if position == end:
        return 0
    if end - position < 5:
        _overrun("a type and a count", 5, end - position, offset + position)
    code = p[position]
    count = long_at(p, position + 1)
    position += 5
    width = widths[code]
    if width == _RESERVED:
        _invalid(f"type 0x{code:02x} is reserved", offset + position - 5)
    if width == 0:
        _empty_values += count
    if width == 0 and _empty_values > _MAX_EMPTY_VALUES:
        text = f"an array of {count} values that have no bytes"
        raise IllegalArgument(text, offset=offset + position, field_index=_at_fault())
    if width == _VARIABLE or code == 0x27:
        # Each value has at least a byte, which limits the count.
        for index in range(count):
            if position >= end:
                _invalid(f"an array of {index} values that has {count} by its count", offset + position)
            position = _check_value(data, position, end, code, depth, offset)
        if position != end:
            _invalid(f"{end - position} bytes left over after the last value of an array", offset + position)
    elif count * width != end - position:
        _invalid(f"an array of {count} values of {width} bytes in {end - position} bytes", offset + position)
    return 0


# --- values -----------------------------------------------------------------------------------


def _map_entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of a map checked by `_check_entries`."""
    p: cython.p_const_uchar = data
    position: cython.Py_ssize_t = 4
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    code: cython.int
    while position < end:
        size = p[position]
        key = _text(data, position + 1, size)
        position += 1 + size
        code = p[position]
        size = _whole_size(data, position + 1, code)
        yield Entry(key, TYPE_NAMES[code], _value(code, data[position + 1 : position + 1 + size]))
        position += 1 + size


def _list_items(data: bytes) -> Iterator[Item]:
    p: cython.p_const_uchar = data
    position: cython.Py_ssize_t = 4
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    code: cython.int
    while position < end:
        code = p[position]
        size = _whole_size(data, position + 1, code)
        yield Item(TYPE_NAMES[code], _value(code, data[position + 1 : position + 1 + size]))
        position += 1 + size


def _array_values(data: bytes) -> Iterator[Any]:
    if not data:
        return
    p: cython.p_const_uchar = data
    position: cython.Py_ssize_t = 5
    size: cython.Py_ssize_t
    code: cython.int = p[0]
    for _ in range(long_at(p, 1)):
        size = _whole_size(data, position, code)
        yield _value(code, data[position : position + size])
        position += size


@cython.cfunc
def _whole_size(data: bytes, position: cython.Py_ssize_t, code: cython.int) -> cython.Py_ssize_t:
    """Return the size of the checked value at a place, including its size field."""
    p: cython.p_const_uchar = data
    widths: cython.p_const_uchar = _WIDTHS
    width: cython.Py_ssize_t = widths[code]
    if width != _VARIABLE:
        return width
    width = 1 << ((code >> 4) & 3)
    return width + _size_at(p, position, len(data), width, 0)


def _value(code: int, data: bytes) -> Any:
    """Decode the checked value of a type."""
    number = _NUMBERS.get(code)
    if number is not None:
        return number.unpack(data)[0]
    width = _width(code)
    content = data[1 << ((code >> 4) & 3) :] if width == 0xFE else data
    if code in _TEXTS:
        return content.decode(*_TEXTS[code])
    if code == _BOOLEAN:
        return data != b"\x00"
    if code == _MAP:
        return _map_of_checked(content)
    if code == _LIST:
        return _list_of_checked(content)
    if code == _ARRAY:
        return _array_of_checked(content)
    if code == _STRUCT32:
        return _struct_at(content, 0, len(content), 0, 0)
    if code == _UUID:
        return UUID(bytes=data)
    if code in (_DEC32, _DEC64):
        mantissa = int.from_bytes(data[1:], signed=True)
        return Decimal((int(mantissa < 0), tuple(map(int, str(abs(mantissa)))), -data[0]))
    if code == _CHAR:
        return data.decode("iso8859-15")
    if code == _CHAR_UTF32:
        return chr(int.from_bytes(data))
    if width == 0:
        return True if code == _BIT else None
    return content


# --- fields of structs, by layout -------------------------------------------------------------


_UNKNOWN_SAFETY = cython.declare(object, SafeUUID.unknown)


@cython.cfunc
def _uuid(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> object:
    """Return `UUID(bytes=…)`, whose constructor spends several times as long on its other arguments."""
    if not cython.compiled or not _UUID_PLACES:
        return UUID(bytes=p[position : position + 16])
    place: cython.p_const_uchar = _UUID_PLACES
    made = new_untracked(UUID)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    fill_slot(made, place[0], number_of(p + position))  # type: ignore[name-defined, operator]  # noqa: F821
    fill_slot(made, place[1], _UNKNOWN_SAFETY)  # type: ignore[name-defined]  # noqa: F821
    return made


# Exchanges, routing keys and content types recur in many commands and headers.
_TEXTS_KNOWN = cython.declare(DecodeCache, DecodeCache())
_MAX_TEXT = cython.declare(cython.Py_ssize_t, 64)


@cython.cfunc
def _text(p: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
    """Return the text of `size` bytes, with surrogates for invalid UTF-8."""
    text: str
    if size == 0:
        return ""
    if size > _MAX_TEXT:
        return p[start : start + size].decode("utf-8", "surrogateescape")
    known = _TEXTS_KNOWN._find(p, start, size)
    if known is not None:
        return cython.cast(str, known)
    text = p[start : start + size].decode("utf-8", "surrogateescape")
    _TEXTS_KNOWN._keep(p, start, size, text)
    return text


@cython.cfunc
@cython.exceptval(-1, check=False)
def _decode(
    made: object,
    slots: bytes,
    layout: bytes,
    present: cython.uint,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.int,
    offset: cython.longlong,
) -> cython.int:
    """Store the values of the fields in `made` whose bit is set in `present`; the lowest bit is the first field.

    The fields fill `data` from `position` to `end`.
    """
    global _field
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = layout
    index: cython.Py_ssize_t
    code: cython.int
    size: cython.longlong
    width: cython.Py_ssize_t
    value: object
    nested: StructDecoder
    while present:
        if not cython.compiled:
            index = (present & -present).bit_length() - 1
        else:
            index = first_of(present)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        present &= present - 1
        code = program[index]
        if depth == 0:
            _field = index
        size = 0
        if code == 0xF1:
            value = True
        elif code == 0x85:  # str8
            size = _size_at(p, position, end, 1, offset)
            position += 1
            value = _text(p, position, size)
        elif code == 0x02:  # uint8
            size = 1
            if end - position < 1:
                _overrun("a field", 1, end - position, offset + position)
            value = p[position]
        elif code == 0x12:  # uint16
            size = 2
            if end - position < 2:
                _overrun("a field", 2, end - position, offset + position)
            value = p[position] << 8 | p[position + 1]
        elif code == 0x22 or code == 0xE0:  # uint32, sequence-no
            size = 4
            if end - position < 4:
                _overrun("a field", 4, end - position, offset + position)
            value = long_at(p, position)
        elif code == 0x32:  # uint64
            size = 8
            if end - position < 8:
                _overrun("a field", 8, end - position, offset + position)
            value = long_long_at(p, position)
        elif code == 0x38:  # datetime
            size = 8
            if end - position < 8:
                _overrun("a field", 8, end - position, offset + position)
            value = signed_long_long_at(p, position)
        elif code == 0x48:  # uuid
            size = 16
            if end - position < 16:
                _overrun("a field", 16, end - position, offset + position)
            value = _uuid(p, position)
        elif code == 0xE1 or code == 0xE2:  # sequence-set, byte-ranges
            size = _size_at(p, position, end, 2, offset)
            position += 2
            if size % (8 if code == 0xE1 else 16):
                _invalid(f"{size} bytes of ranges, each of {8 if code == 0xE1 else 16}", offset + position)
            if code == 0xE1 and size == 8:
                value = SequenceSet._of_one(long_at(p, position), long_at(p, position + 4))
            elif code == 0xE1:
                value = SequenceSet._of(p[position : position + size])
            else:
                value = ByteRanges.from_bytes(p[position : position + size])
        elif code == 0x80 or code == 0x90 or code == 0xA0:  # vbin8, vbin16, vbin32
            width = 1 << ((code >> 4) & 3)
            size = _size_at(p, position, end, width, offset)
            position += width
            value = p[position : position + size]
        elif code == 0x95:  # str16
            size = _size_at(p, position, end, 2, offset)
            position += 2
            value = _text(p, position, size)
        elif code == 0xA8 or code == 0xAA or code == 0xAB:  # map, array, struct32
            size = _size_at(p, position, end, 4, offset)
            position += 4
            if code == 0xA8:
                _check_entries(data, position, position + size, True, depth + 1, offset)
                value = _map_of_checked(p[position : position + size])
            elif code == 0xAA:
                _check_array(data, position, position + size, depth + 1, offset)
                value = _array_of_checked(p[position : position + size])
            else:
                value = _struct_at(data, position, position + size, depth + 1, offset)
        elif code == 0xE4 and end - position >= 4 and p[position] == 0 and p[position + 1] == 0:
            # As in Qpid's errata: its size has four bytes, the first two of which are never used.
            size = _size_at(p, position, end, 4, offset)
            position += 4
            value = _struct_at(data, position, position + size, depth + 1, offset)
            nested = _nested[0xE4]
            if type(value) is not nested._cls:
                _invalid("a struct that is no xid", offset + position)
        else:  # a struct with a two-byte size, and no code
            size = _size_at(p, position, end, 2, offset)
            position += 2
            nested = _nested[code]
            value = nested._made(data, position, position + size, depth + 1, offset)
            if code != 0xE3:
                value = value.as_plain()  # type: ignore[attr-defined]
        put_field(made, slots, index, value)
        position += size
    if depth == 0:
        _field = -1
    if position != end:
        _invalid(f"{end - position} bytes left over after the last field", offset + position)
    return 0


@cython.final
@cython.cclass
class StructDecoder:
    """Makes structs of one class from encoded values: packing flags in `pack` bytes, and fields.

    Compiled, it stores each value at its fixed place in the struct, as in every class with `__slots__`. A call of the
    class takes several times as long. The class may have one field more than the layout has codes: it is `False`, or
    the argument of `_of_command`.
    """

    def __init__(self, cls: Any, layout: bytes, pack: int) -> None:
        self._cls = cls
        self._layout = layout
        self._pack = pack
        self._has_extra = len(cls.__struct_fields__) > len(layout)
        self._absent = [False if code == 0xF1 else None for code in layout] + [False] * self._has_extra
        self._slots = slots_of(cls)
        self._blank = blank_struct(cls, self._slots, self._absent)

    @cython.cfunc
    def _made(
        self,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.int,
        offset: cython.longlong,
    ) -> object:
        """Return the struct in `data[position:end]`, which begins with its packing flags."""
        return self._of_command(data, position, end, depth, offset, False)

    @cython.cfunc
    def _of_command(
        self,
        data: bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.int,
        offset: cython.longlong,
        extra: object,
    ) -> object:
        p: cython.p_const_uchar = data
        present: cython.uint
        count: cython.Py_ssize_t = len(self._layout)
        made: object
        if depth == 0:
            _reset()
        if end - position < self._pack:
            _overrun("packing flags", self._pack, end - position, offset + position)
        if self._pack == 2:
            present = p[position] | p[position + 1] << 8
            if present >> count:
                _invalid(f"packing flags for more than {count} fields", offset + position)
        else:
            present = (1 << count) - 1
        position += self._pack
        if depth > 128:
            _too_deep(offset + position)
        if self._blank is not None:
            made = copy_struct(self._blank)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
            _decode(made, self._slots, self._layout, present, data, position, end, depth, offset)
            if self._has_extra:
                put_field(made, self._slots, count, extra)
            return made
        values: list[Any] = self._absent.copy()
        _decode(values, b"", self._layout, present, data, position, end, depth, offset)
        if self._has_extra:
            values[count] = extra
        return self._cls(**dict(zip(self._cls.__struct_fields__, values, strict=True)))

    @cython.cfunc
    def _of_one(self, value: object) -> object:
        """Return the struct with this only field."""
        if self._blank is None:
            return self._cls(value)
        made = copy_struct(self._blank)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        put_field(made, self._slots, 0, value)
        return made

    def decode(self, data: bytes, position: int, end: int, offset: int = 0, extra: bool = False) -> Any:
        """Return the struct in `data[position:end]`, for plain callers."""
        return self._of_command(data, position, end, 0, offset, extra)


_MAX_CODE = cython.declare(cython.int, 0x0FFF)
_coded = cython.declare(list, [None] * 0x1000)
_nested = cython.declare(dict, {})


def enter_struct(decoder: StructDecoder, code: int | None, layout_code: int | None) -> None:
    """Register the decoder of structs with this code, and of fields with this code in a layout."""
    if code is not None:
        _coded[code] = decoder
    if layout_code is not None:
        _nested[layout_code] = decoder


@cython.cfunc
def _struct_at(
    data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int, offset: cython.longlong
) -> object:
    """Return the struct in `data[position:end]`, which begins with its code."""
    p: cython.p_const_uchar = data
    if end - position < 2:
        _overrun("a struct's code", 2, end - position, offset + position)
    code: cython.int = p[position] << 8 | p[position + 1]
    decoder: StructDecoder | None = _coded[code] if code <= _MAX_CODE else None
    if decoder is None:
        return UnknownStruct(code, p[position + 2 : end])
    return decoder._made(data, position + 2, end, depth, offset)


# Consecutive messages tend to have identical properties.
_STRUCTS = cython.declare(DecodeCache, DecodeCache())
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 160)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _names_message(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether there are message-properties with a message-id or a correlation-id, which do not recur."""
    return end - position >= 4 and p[position] == 4 and p[position + 1] == 3 and p[position + 2] & 6 != 0


@cython.cfunc
@cython.exceptval(check=False)
def _is_once_only(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether a header is unique to its message, as far as its first or second struct shows."""
    size: cython.longlong
    if end - position < 8:
        return False
    if _names_message(p, position + 4, end):
        return True
    size = long_at(p, position) + 4
    return size <= end - position - 4 and _names_message(p, position + size + 4, end)


@cython.cfunc
def _struct_again(data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, offset: cython.longlong) -> object:
    """Return the struct in `data[position:end]`, which begins with its code, possibly from the cache."""
    p: cython.p_const_uchar = data
    size: cython.Py_ssize_t = end - position
    if size < 2 or size > _MAX_CACHED or _names_message(p, position, end):
        return _struct_at(data, position, end, 0, offset)
    made = _STRUCTS._find(p, position, size)
    if made is None:
        made = _struct_at(data, position, end, 0, offset)
        _STRUCTS._keep(p, position, size, made)
    return made


def decode_structs(data: bytes) -> tuple[Any, ...]:
    """Return the structs that fill `data`, each with size and code: a header segment (section 5.9.1)."""
    return _structs(data, 0, len(data), 0)


@cython.cfunc
def _structs(data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, offset: cython.longlong) -> tuple:  # type: ignore[type-arg]
    global _field
    _field = -1
    p: cython.p_const_uchar = data
    size: cython.longlong
    place: cython.Py_ssize_t
    last: cython.longlong
    # Most headers have two structs.
    if position < end:
        size = _size_at(p, position, end, 4, offset)
        place = position + 4 + size
        if size >= 2 and place < end:
            last = _size_at(p, place, end, 4, offset)
            if last >= 2 and place + 4 + last == end:
                if p[position + 4] == p[place + 4] and p[position + 5] == p[place + 5]:
                    _twice(offset + place)
                one = _struct_again(data, position + 4, place, offset)
                return (one, _struct_again(data, place + 4, end, offset))
    return _any_structs(data, position, end, offset)


@cython.cfunc
def _any_structs(data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, offset: cython.longlong) -> tuple:  # type: ignore[type-arg]
    p: cython.p_const_uchar = data
    size: cython.longlong
    made: list[Any] = []
    seen: set[bytes] = set()
    while position < end:
        size = _size_at(p, position, end, 4, offset)
        made.append(_struct_again(data, position + 4, position + 4 + size, offset))
        code = p[position + 4 : position + 6]
        if code in seen:
            _twice(offset + position)
        seen.add(code)
        position += 4 + size
    return tuple(made)


@cython.cfunc
def _twice(offset: int) -> object:
    raise IllegalArgument("a header with two structs of a type", offset=offset)
