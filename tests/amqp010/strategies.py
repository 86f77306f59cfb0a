"""Hypothesis strategies: all that AMQP 0-10 can express."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.methods import BY_INDEX, Command, Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import ByteRanges, SequenceSet
from amqproxy.amqp010.structs import BY_CODE, BY_NAME, Struct
from amqproxy.amqp010.wire import FIELD_CODES, REPLY_TO, XID, Array, Entry, Item, List, Map, UnknownStruct


def integers(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
    return st.integers(low, high - 1)


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def decimals(bits: int) -> st.SearchStrategy[Decimal]:
    return st.builds(
        lambda mantissa, scale: Decimal((int(mantissa < 0), tuple(map(int, str(abs(mantissa)))), -scale)),
        integers(bits, is_signed=True),
        st.integers(0, 255),
    )


any_text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape")),
)
"""Text of a peer, which is often not UTF-8; at most 255 bytes."""
latin_text = st.binary(max_size=255).map(lambda data: data.decode("iso8859-15"))
utf16_text = st.binary(max_size=127).map(lambda data: (data + data[:1] * (len(data) % 2)).decode("utf-16-be", "ignore"))

SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "bin8": exactly(1),
    "int8": integers(8, is_signed=True),
    "uint8": integers(8, is_signed=False),
    "char": exactly(1).map(lambda data: data.decode("iso8859-15")),
    "boolean": st.booleans(),
    "bin16": exactly(2),
    "int16": integers(16, is_signed=True),
    "uint16": integers(16, is_signed=False),
    "bin32": exactly(4),
    "int32": integers(32, is_signed=True),
    "uint32": integers(32, is_signed=False),
    "float": st.floats(width=32, allow_nan=False),
    "char-utf32": st.integers(0, 0x10FFFF).map(chr),
    "bin64": exactly(8),
    "int64": integers(64, is_signed=True),
    "uint64": integers(64, is_signed=False),
    "double": st.floats(allow_nan=False),
    "datetime": integers(64, is_signed=True),
    "bin128": exactly(16),
    "uuid": st.uuids(),
    "bin256": exactly(32),
    "bin512": exactly(64),
    "bin1024": exactly(128),
    "vbin8": st.binary(max_size=255),
    "str8-latin": latin_text,
    "str8": any_text,
    "str8-utf16": utf16_text,
    "vbin16": st.binary(max_size=300),
    "str16-latin": latin_text,
    "str16": any_text,
    "str16-utf16": utf16_text,
    "vbin32": st.binary(max_size=300),
    "bin40": exactly(5),
    "dec32": decimals(32),
    "bin72": exactly(9),
    "dec64": decimals(64),
    "void": st.none(),
    "bit": st.just(True),
    "0x03": exactly(1),  # and some that the specification leaves open, whose codes tell how long they are
    "0x7f": exactly(128),
    "0x8f": st.binary(max_size=255),
    "0xa1": st.binary(max_size=300),
    "0xcf": exactly(5),
    "0xff": st.none(),
}
"""The types whose values hold no others."""


def _nested(items: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    entries = st.lists(st.builds(lambda key, item: Entry(key, *item), any_text, items), max_size=4)
    return st.one_of(
        entries.map(lambda listed: Item("map", Map(listed))),
        st.lists(items, max_size=4).map(lambda listed: Item("list", List(listed))),
        items.flatmap(
            lambda item: st.lists(st.just(item.value), max_size=3).map(lambda v: Item("array", Array(item.type, v)))
        ),
        structs.map(lambda struct: Item("struct32", struct)),
    )


ranges = st.lists(st.tuples(integers(32, is_signed=False), integers(32, is_signed=False)), max_size=4)
byte_ranges = st.lists(st.tuples(integers(64, is_signed=False), integers(64, is_signed=False)), max_size=4)

_FLAT = st.one_of([st.builds(Item, st.just(name), values) for name, values in SIMPLE.items()])


def fields_of(cls: type[Method] | type[Struct], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Values for the fields of a class, each there or not."""
    by_code: dict[int, st.SearchStrategy[Any]] = {
        code: SIMPLE[name] for name, code in FIELD_CODES.items() if name in SIMPLE
    }
    by_code |= {
        FIELD_CODES["sequence-no"]: SIMPLE["uint32"],
        FIELD_CODES["sequence-set"]: ranges.map(SequenceSet),
        FIELD_CODES["byte-ranges"]: byte_ranges.map(ByteRanges),
        FIELD_CODES["map"]: st.lists(st.builds(lambda key, item: Entry(key, *item), any_text, inner), max_size=3).map(
            Map
        ),
        FIELD_CODES["array"]: st.one_of(
            st.lists(any_text, max_size=3).map(lambda values: Array("str16", values)), st.just(Array(""))
        ),
    }
    made: dict[str, st.SearchStrategy[Any]] = {}
    for field, code in zip(cls.fields, cls.layout, strict=True):
        if code == FIELD_CODES["bit"]:
            made[field] = st.booleans()
        elif code == FIELD_CODES["struct32"]:
            made[field] = st.one_of(st.none(), structs)
        elif code == REPLY_TO:
            made[field] = st.one_of(st.none(), structs_of(BY_NAME["message.reply-to"], inner))
        elif code == XID:
            made[field] = st.one_of(st.none(), xids)
        else:
            made[field] = by_code[code] if not getattr(cls, "pack", 2) else st.one_of(st.none(), by_code[code])
    return st.fixed_dictionaries(made)


def structs_of(cls: type[Struct], inner: st.SearchStrategy[Any] = _FLAT) -> st.SearchStrategy[Any]:
    return fields_of(cls, inner).map(lambda values: cls(**values))


xids = st.builds(
    Xid,
    st.one_of(st.none(), SIMPLE["uint32"]),
    st.one_of(st.none(), SIMPLE["vbin8"]),
    st.one_of(st.none(), SIMPLE["vbin8"]),
    is_plain=st.booleans(),
)

unknown_structs = st.builds(
    UnknownStruct, integers(16, is_signed=False).filter(lambda code: code not in BY_CODE), st.binary(max_size=20)
)

structs: st.SearchStrategy[Any] = st.one_of(
    st.deferred(lambda: st.sampled_from(list(BY_CODE.values())).flatmap(structs_of)), unknown_structs
)
"""Structs with a code, and a size in four bytes."""

items = st.recursive(_FLAT, _nested, max_leaves=12)
"""Values of maps and lists, of every type, with their types."""

maps = st.lists(st.builds(lambda key, item: Entry(key, *item), any_text, items), max_size=6).map(Map)


def methods_of(cls: type[Method]) -> st.SearchStrategy[Any]:
    values = fields_of(cls, _FLAT)
    if issubclass(cls, Command):
        return st.builds(lambda sync, fields: cls(**fields, sync=sync), st.booleans(), values)
    return values.map(lambda fields: cls(**fields))


methods = st.sampled_from(BY_INDEX).flatmap(methods_of)

headers = st.lists(structs, max_size=3, unique_by=lambda struct: struct.code).map(
    lambda entries: Header(tuple(entries))
)

channels = integers(16, is_signed=False)


@st.composite
def assemblies(draw: st.DrawFn, channel: st.SearchStrategy[int] = channels) -> Assembly:
    method = draw(methods.filter(lambda each: each.name != "connection.tune-ok"))  # which limits what may follow
    if not method.carries_content:
        return Assembly(draw(channel), method)
    header = draw(st.one_of(st.none(), headers))
    return Assembly(draw(channel), method, header, draw(st.one_of(st.none(), st.binary(max_size=300))))
