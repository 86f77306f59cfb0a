"""Integers, strings and field tables (section 4.2.5), with RabbitMQ's table types.

The specification and RabbitMQ name the types of table values differently; on the wire RabbitMQ's version has prevailed,
and is used here:

    t bool   b int8   B uint8   s int16   u uint16   I int32   i uint32   l and L int64
    f float  d double D decimal S long string  x octets  T timestamp  A array  F table  V void

`U`, the specification's own int16, is read too. Everything is checked when it is first decoded, so that an existing
table is always valid, and a table encodes to the very bytes it came from. As in RabbitMQ, a value that overruns or
does not fill its container causes 501 (frame error); an impossible value, such as an unknown type, 502 (syntax error).

The file stays whole, because a `Table` decodes itself by the functions that make tables, and the compiler makes C calls
only between functions of one file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from amqproxy.amqp091.errors import ErrorKind, FrameError, SyntaxViolation
from amqproxy.compiled.decode_cache import DecodeCache
from amqproxy.compiled.struct_slots import blank_struct, places_of, slots_of

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, long_long_at
    from amqproxy.compiled.struct_slots import put_field

MAX_TABLE_DEPTH = 128
"""Maximum nesting depth of tables and arrays that are decoded; deeper ones are values of raw bytes.

Peers may nest them deeper, since RabbitMQ limits only the frame size: they pass, and recursion over the values of a
table is bounded.
"""

MAX_SHORT_STRING = 255
"""Maximum length of a short string in bytes."""

_INTEGERS = {
    "b": struct.Struct(">b"),
    "B": struct.Struct(">B"),
    "s": struct.Struct(">h"),
    "U": struct.Struct(">h"),
    "u": struct.Struct(">H"),
    "I": struct.Struct(">i"),
    "i": struct.Struct(">I"),
    "l": struct.Struct(">q"),
    "L": struct.Struct(">q"),
    "T": struct.Struct(">Q"),
}
_FLOATS = {"f": struct.Struct(">f"), "d": struct.Struct(">d")}
_LENGTH = struct.Struct(">I")
_DECIMAL = struct.Struct(">Bi")
"""Section 4.2.5.5 has an unsigned number; pika, pamqp and py-amqp write and read a signed one."""

_FIRST = cython.declare(cython.uint, 0x80000000)
"""Presence bit of the first field; a layout has at most 32."""
_ALL = cython.declare(cython.uint, 0xFFFFFFFF)

_FIXED_SIZES = bytearray(256)
"""Size of a value of each type with a fixed size; 0 for the others."""
for _type, _size in zip("tbBsUuIilLTfdD", (1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 8, 4, 8, 5), strict=True):
    _FIXED_SIZES[ord(_type)] = _size
_FIXED = cython.declare(bytes, bytes(_FIXED_SIZES))


class Field(NamedTuple):
    """One entry of a table: its name, the letter of its wire type, and its value."""

    name: str
    type: str
    value: Any


class Item(NamedTuple):
    """One entry of an array: the letter of its wire type, and its value."""

    type: str
    value: Any


class Table(Mapping[str, Any]):
    """A field table: an immutable mapping that keeps the wire type of every value.

    A value of a mapping gets the type that RabbitMQ's own clients would give it; a `Field` has its given type. `fields`
    lists all entries in order, including duplicates; a lookup finds the first entry of a name (section 4.2.5.5).
    """

    __slots__ = ("_depth", "_fields", "_octets", "_values")

    def __init__(self, entries: Mapping[str, Any] | Iterable[Field] = ()) -> None:
        if isinstance(entries, Table):
            fields, octets = entries.fields, entries.octets
        elif isinstance(entries, Mapping):
            fields = tuple(Field(name, *_typed(value)) for name, value in entries.items())
            octets = encode_table_entries(fields)
        else:
            fields = tuple(entries)
            octets = encode_table_entries(fields)
        self._fields: tuple[Field, ...] | None = fields
        self._octets: bytes = octets
        self._values: dict[str, Any] | None = None
        self._depth: int = 0

    @classmethod
    def from_octets(cls, octets: bytes, offset: int = 0) -> Table:
        """Return the table with exactly these entries (without a length in front), after checking them.

        `offset` is their position, for the `ProtocolError` if they are invalid.
        """
        check_table(octets, 0, len(octets), offset)
        return _table_of_checked(octets, 0)

    @property
    def octets(self) -> bytes:
        """Encoded entries, without the length in front."""
        return self._octets

    @property
    def fields(self) -> tuple[Field, ...]:
        if self._fields is None:
            self._fields = tuple(_decode_entries(self._octets, self._depth))
        return self._fields

    @property
    def values_by_name(self) -> Mapping[str, Any]:
        if self._values is None:
            values: dict[str, Any] = {}
            for name, _, value in self.fields:
                values.setdefault(name, value)
            self._values = values
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Table):
            return self._octets == other._octets
        if isinstance(other, Mapping):
            return dict(self) == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._octets)

    def __repr__(self) -> str:
        return f"Table({dict(self)!r})"


_TABLE_PLACES = cython.declare(bytes, places_of(Table, ("_octets", "_fields", "_values", "_depth")))


@cython.cfunc
def _table_of_checked(octets: bytes, depth: object) -> Table:
    """Return the table of checked bytes, nested in `depth` others."""
    table: Table
    if cython.compiled and _TABLE_PLACES:
        place: cython.p_const_uchar = _TABLE_PLACES
        table = new_struct(Table)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        fill_slot(table, place[0], octets)  # type: ignore[name-defined]  # noqa: F821
        fill_slot(table, place[1], None)  # type: ignore[name-defined]  # noqa: F821
        fill_slot(table, place[2], None)  # type: ignore[name-defined]  # noqa: F821
        fill_slot(table, place[3], depth)  # type: ignore[name-defined]  # noqa: F821
        return table
    table = object.__new__(Table)
    table._fields = table._values = None
    table._octets = octets
    table._depth = depth  # type: ignore[assignment]
    return table


class Array(Sequence[Any]):
    """A field array: an immutable sequence that keeps the wire type of every value."""

    __slots__ = ("items",)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.items: tuple[Item, ...] = tuple(
            value if isinstance(value, Item) else Item(*_typed(value)) for value in values
        )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [item.value for item in self.items[index]]
        return self.items[index].value

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array):
            return self.items == other.items
        if isinstance(other, (list, tuple)):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.items)

    def __repr__(self) -> str:
        return f"Array({list(self)!r})"


def _typed(value: Any) -> Item:
    """Return the wire type of a plain Python value, and the value as stored in a table."""
    if isinstance(value, Item):
        return value
    if isinstance(value, bool):
        return Item("t", value)
    if isinstance(value, int):
        return Item("I" if -(2**31) <= value < 2**31 else "l", value)
    if isinstance(value, str):
        return Item("S", value)
    if value is None:
        return Item("V", None)
    if isinstance(value, float):
        return Item("d", value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Item("x", bytes(value))
    if isinstance(value, Decimal):
        return Item("D", value)
    if isinstance(value, Mapping):
        return Item("F", value if isinstance(value, Table) else Table(value))
    if isinstance(value, (list, tuple, Array)):
        return Item("A", value if isinstance(value, Array) else Array(value))
    raise TypeError(f"no field-table type fits {type(value).__name__}")


# Text in tables and properties may be any bytes; invalid UTF-8 is kept as surrogates, so that it can be shown and
# still encodes to the same bytes.


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# --- encoding ---------------------------------------------------------------------------------


def encode_short_string(text: str) -> bytes:
    """Return the length byte and the text in UTF-8; raise `ValueError` above 255 bytes."""
    octets = _octets(text)
    if len(octets) > MAX_SHORT_STRING:
        raise ValueError(f"a short string holds 255 bytes, this one has {len(octets)}")
    return bytes((len(octets),)) + octets


def encode_table(table: Table) -> bytes:
    """Return the four length bytes and the entries."""
    octets = table.octets
    return _LENGTH.pack(len(octets)) + octets


def encode_table_entries(fields: Iterable[Field]) -> bytes:
    """Return the entries of a table, without the length in front."""
    return b"".join([encode_short_string(field.name) + _encode_value(field.type, field.value) for field in fields])


def _encode_value(type_: str, value: Any) -> bytes:
    letter = type_.encode("latin-1")
    if type_ in _INTEGERS:
        return letter + _INTEGERS[type_].pack(value)
    if type_ in ("S", "x") or (type_ in ("F", "A") and isinstance(value, bytes)):  # raw bytes
        octets = _octets(value) if isinstance(value, str) else bytes(memoryview(value))
        return letter + _LENGTH.pack(len(octets)) + octets
    if type_ == "t":
        return letter + (b"\x01" if value else b"\x00")
    if type_ == "V":
        return letter
    if type_ == "F":
        return letter + encode_table(value if isinstance(value, Table) else Table(value))
    if type_ == "A":
        array = value if isinstance(value, Array) else Array(value)
        octets = b"".join([_encode_value(item.type, item.value) for item in array.items])
        return letter + _LENGTH.pack(len(octets)) + octets
    if type_ in _FLOATS:
        return letter + _FLOATS[type_].pack(value)
    if type_ == "D":
        return letter + _encode_decimal(value)
    raise ValueError(f"{type_!r} is no field-table type")


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} has no decimal form on the wire")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    scale = max(-exponent, 0)
    unscaled = -unscaled if sign else unscaled
    if not -(2**31) <= unscaled < 2**31 or scale > 255:
        raise ValueError(f"{value} does not fit a decimal: a scale byte and 32 signed bits")
    return _DECIMAL.pack(scale, unscaled)


# --- decoding ---------------------------------------------------------------------------------


@cython.cfunc
def _overrun(what: str, needed: object, left: object, offset: int) -> object:
    raise FrameError(f"{what} of {needed} bytes in {left} bytes", offset=offset)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_not_finite(p: cython.p_const_uchar, position: cython.Py_ssize_t, kind: cython.int) -> cython.bint:
    """Whether all exponent bits of a float or double are set, as in NaN and the infinities."""
    return p[position] & 0x7F == 0x7F and p[position + 1] >= (0x80 if kind == 102 else 0xF0)


def check_table(
    data: bytes,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    offset: int = 0,
    *,
    is_erlang: bool = False,
) -> None:
    """Check the entries in `data[start:end]`: all lengths and types, at any depth.

    With `is_erlang`, only what RabbitMQ's parser accepts is allowed: not the type `U`, and only finite numbers. Raise
    `ProtocolError` with `offset` plus the place in `data` as its offset.
    """
    _check_entries(data, start, end, is_erlang, offset)


@cython.cfunc
@cython.returns(cython.bint)
@cython.exceptval(check=True)
def _check_entries(
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_erlang: cython.bint,
    offset: int,
) -> bool:
    """Implement `check_table` without recursion, since a frame of the usual size can nest 26,000 arrays."""
    p: cython.p_const_uchar = data
    fixed: cython.p_const_uchar = _FIXED
    kind: cython.int
    size: cython.longlong
    are_named: cython.bint = True
    outer: list | None = None  # type: ignore[type-arg]
    outer_end: cython.Py_ssize_t
    while True:
        if position == end:
            if not outer:
                return True
            outer_end = outer.pop()
            end = outer_end >> 1
            are_named = outer_end & 1 == 1
            continue
        if are_named:
            size = p[position]
            position += 1
            if size > end - position:
                _overrun("a name", size, end - position, offset + position)
            position += size
            if position == end:
                raise FrameError(
                    "a table ends after a name, where a type should be",
                    offset=offset + position,
                )
        kind = p[position]
        position += 1
        size = fixed[kind]
        if (size == 0 and kind != 86 and kind != 83 and kind != 120 and kind != 70 and kind != 65) or (
            is_erlang and kind == 85
        ):  # V S x F A; U
            raise SyntaxViolation(
                f"unknown field-table type 0x{kind:02x}",
                offset=offset + position - 1,
            )
        if size == 0 and kind != 86:  # V has no bytes
            if end - position < 4:
                _overrun("a length", 4, end - position, offset + position)
            size = long_at(p, position)
            position += 4
            if size > end - position:
                _overrun("a value", size, end - position, offset + position)
            if kind == 70 or kind == 65:
                if outer is None:
                    outer = []
                outer.append(end << 1 | are_named)
                end = position + size
                are_named = kind == 70
                continue
        elif size > end - position:
            _overrun("a value", size, end - position, offset + position)
        elif is_erlang and (kind == 102 or kind == 100) and _is_not_finite(p, position, kind):  # f d
            raise SyntaxViolation("a floating-point value that is not a finite number", offset=offset + position)
        position += size


def _decode_entries(data: bytes, depth: int) -> list[Field]:
    """Return the fields of entries checked by `check_table`, of a table nested in `depth` others."""
    position: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    fields = []
    while position < end:
        size = data[position]
        name = _text(data[position + 1 : position + 1 + size])
        position += 1 + size
        kind = data[position]
        position += 1
        size = _value_size(data, position, kind)
        fields.append(Field(name, chr(kind), _decode_value(kind, data[position : position + size], depth)))
        position += size
    return fields


def _decode_items(data: bytes, depth: int) -> Iterator[Item]:
    position: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    while position < len(data):
        kind = data[position]
        position += 1
        size = _value_size(data, position, kind)
        yield Item(chr(kind), _decode_value(kind, data[position : position + size], depth))
        position += size


@cython.cfunc
def _value_size(data: bytes, position: cython.Py_ssize_t, kind: cython.int) -> cython.Py_ssize_t:
    """Return the size of the value at `position` in bytes, including its length."""
    if kind == 83 or kind == 120 or kind == 70 or kind == 65:
        p: cython.p_const_uchar = data
        return 4 + long_at(p, position)
    fixed: cython.p_const_uchar = _FIXED
    return fixed[kind]


def _decode_value(kind: int, octets: bytes, depth: int) -> Any:
    """Decode a value of a table or array nested in `depth` others."""
    type_ = chr(kind)
    if type_ == "S":
        return _text(octets[4:])
    if type_ in _INTEGERS:
        return _INTEGERS[type_].unpack(octets)[0]
    if type_ == "t":
        return octets != b"\x00"
    if type_ in ("F", "A") and depth >= MAX_TABLE_DEPTH:
        return octets[4:]
    if type_ == "F":
        return _table_of_checked(octets[4:], depth + 1)
    if type_ == "A":
        return Array(_decode_items(octets[4:], depth + 1))
    if type_ == "V":
        return None
    if type_ == "x":
        return octets[4:]
    if type_ in _FLOATS:
        return _FLOATS[type_].unpack(octets)[0]
    scale, unscaled = _DECIMAL.unpack(octets)
    return Decimal(f"{unscaled}E-{scale}")  # exact, whatever the context's precision


# --- the arguments of methods, by layout ------------------------------------------------------
#
# A layout is one letter a field: o octet, h short, l long, q longlong (and timestamp), s short
# string, S long string, F table, b bit; u is a short string that need not be UTF-8. Bits that
# follow one another share bytes, the first in the lowest bit (section 4.2.5.2).


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _all(count: cython.Py_ssize_t) -> cython.uint:
    """Return the presence bits of `count` present fields, as `_decode` takes them."""
    return _ALL << (32 - count) & _ALL if count else 0


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
) -> cython.int:
    """Store the values of the fields in `made` whose bit is set in `present`; the highest bit is the first field."""
    p: cython.p_const_uchar = data
    program: cython.p_const_uchar = layout
    index: cython.Py_ssize_t
    before: cython.Py_ssize_t = -1
    code: cython.int
    size: cython.longlong
    bit: cython.int = 0
    while present:
        if not cython.compiled:
            index = 32 - present.bit_length()
        else:
            index = first_of(present)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        present ^= _FIRST >> index
        if index != before + 1:
            bit = 0
        before = index
        code = program[index]
        if code == 98:  # b
            if bit == 0:
                if position >= end:
                    _overrun("a bit", 1, 0, position)
                position += 1
            put_field(made, slots, index, (p[position - 1] >> bit) & 1 == 1)
            bit = (bit + 1) & 7
            continue
        bit = 0
        if code == 115 or code == 117:  # s u
            if position >= end:
                _overrun("a length", 1, 0, position)
            size = p[position]
            position += 1
            if size > end - position:
                _overrun("a short string", size, end - position, position)
            put_field(made, slots, index, _short_text(p, position, position + size, code == 117))
        elif code == 113:  # q
            size = 8
            if size > end - position:
                _overrun("a field", size, end - position, position)
            put_field(made, slots, index, long_long_at(p, position))
        elif code == 104:  # h
            size = 2
            if size > end - position:
                _overrun("a field", size, end - position, position)
            put_field(made, slots, index, (p[position] << 8) | p[position + 1])
        elif code == 108:  # l
            size = 4
            if size > end - position:
                _overrun("a field", size, end - position, position)
            put_field(made, slots, index, long_at(p, position))
        elif code == 111:  # o
            size = 1
            if size > end - position:
                _overrun("a field", size, end - position, position)
            put_field(made, slots, index, p[position])
        else:  # S F
            if end - position < 4:
                _overrun("a length", 4, end - position, position)
            size = long_at(p, position)
            position += 4
            if size > end - position:
                what = "a table" if code == 70 else "a long string"
                _overrun(what, size, end - position, position)
            if code == 70:
                _check_entries(data, position, position + size, False, 0)
                put_field(made, slots, index, _table_of_checked(p[position : position + size], 0))
            else:
                put_field(made, slots, index, p[position : position + size])
        position += size
    if position != end:
        raise FrameError(f"{end - position} bytes left over after the last field", offset=position)
    return 0


@cython.final
@cython.cclass
class StructDecoder:
    """Makes structs of one class from encoded values, as a method's fields or as a property list.

    Compiled, it stores each value at its fixed place in the struct, as in every class with `__slots__`. A call of the
    class takes several times as long.
    """

    def __init__(self, cls: Any, layout: bytes = b"") -> None:
        self._cls = cls
        self._layout = layout
        self._slots = slots_of(cls)
        self._blank = blank_struct(cls, self._slots, [None] * len(cls.__struct_fields__))

    @cython.ccall
    def of_fields(self, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> Any:
        """Return the struct of the fields in `data[position:end]`."""
        return self._made(_all(len(self._layout)), data, position, end)

    @cython.ccall
    def of_flagged(self, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> Any:
        """Return the struct of the property list in `data[position:end]`."""
        return self._made(_flags(len(self._layout), data, position, end), data, position + 2, end)

    @cython.cfunc
    def _made(self, present: cython.uint, data: bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
        made: object
        if self._blank is not None:
            made = copy_struct(self._blank)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
            _decode(made, self._slots, self._layout, present, data, position, end)
            return made
        made = [None] * len(self._layout)
        _decode(made, b"", self._layout, present, data, position, end)
        return self._cls(*made)

    @cython.cfunc
    def _of_four(self, one: object, two: object, three: object, four: object) -> object:
        """Return the struct with exactly these fields."""
        if self._blank is None:
            return self._cls(one, two, three, four)
        made = copy_struct(self._blank)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        put_field(made, self._slots, 0, one)
        put_field(made, self._slots, 1, two)
        put_field(made, self._slots, 2, three)
        put_field(made, self._slots, 3, four)
        return made


@cython.cfunc
@cython.exceptval(0xFFFFFFFF, check=False)
def _flags(
    count: cython.Py_ssize_t,
    data: bytes,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.uint:
    """Return the presence bits of `count` properties, from the flags at `position`, as `_decode` takes them."""
    if end - position < 2:
        _overrun("property flags", 2, max(end - position, 0), position)
    p: cython.p_const_uchar = data
    flags: cython.uint = (p[position] << 8) | p[position + 1]
    return (flags & (0xFFFF << (16 - count))) << 16  # RabbitMQ ignores bits without a property


# Names of queues and exchanges, routing keys and content types recur in many frames. Names that must be UTF-8 are
# cached separately from others.
_NAMES = cython.declare(DecodeCache, DecodeCache())
_TEXTS = cython.declare(DecodeCache, DecodeCache())
_MAX_CACHED = cython.declare(cython.Py_ssize_t, 64)


@cython.cfunc
def _short_text(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_lenient: cython.bint,
) -> str:
    size: cython.Py_ssize_t = end - start
    cache: DecodeCache
    text: str
    if size == 0:
        return ""
    if size > _MAX_CACHED:
        return _decoded_text(p, start, end, is_lenient)
    cache = _TEXTS if is_lenient else _NAMES
    known = cache._find(p, start, size)
    if known is not None:
        return cython.cast(str, known)
    text = _decoded_text(p, start, end, is_lenient)
    cache._keep(p, start, size, text)
    return text


@cython.cfunc
def _decoded_text(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_lenient: cython.bint,
) -> str:
    if is_lenient:
        return p[start:end].decode("utf-8", "surrogateescape")
    try:
        return p[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        text, at = f"a short string is not UTF-8: {error.reason}", start + error.start
        raise FrameError(text, offset=at, kind=ErrorKind.NOT_UTF_8) from None


def encode_fields(layout: bytes, values: Sequence[Any]) -> bytes:
    """Encode `values`, one for each letter of `layout`.

    Raise `ValueError` or `struct.error` if a value does not fit its type.
    """
    parts = []
    bits = 0
    bit = 0
    for code, value in zip(layout.decode(), values, strict=True):
        if code == "b":
            if bit == 8:
                parts.append(bytes((bits,)))
                bits = bit = 0
            bits |= bool(value) << bit
            bit += 1
            continue
        if bit:
            parts.append(bytes((bits,)))
            bits = bit = 0
        if code in ("s", "u"):
            parts.append(encode_short_string(value))
        elif code == "F":
            parts.append(encode_table(value))
        elif code == "S":
            parts.append(_LENGTH.pack(len(value)) + value)
        else:
            parts.append(_NUMBERS[code].pack(value))
    if bit:
        parts.append(bytes((bits,)))
    return b"".join(parts)


def encode_flagged(layout: bytes, values: Sequence[Any]) -> bytes:
    """Encode `values` as a property list, without the `None` values."""
    flags = 0
    present = bytearray()
    for index, value in enumerate(values):
        if value is not None:
            flags |= 0x8000 >> index
            present.append(layout[index])
    kept = [value for value in values if value is not None]
    return flags.to_bytes(2) + encode_fields(bytes(present), kept)


_NUMBERS = {
    "o": struct.Struct(">B"),
    "h": struct.Struct(">H"),
    "l": struct.Struct(">I"),
    "q": struct.Struct(">Q"),
}
