"""The types: values to bytes and back, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import defstruct

from amqproxy.amqp010 import wire
from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.amqp010.errors import CommandInvalid, IllegalArgument, ProtocolError
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.wire import CODES, Array, Entry, Item, List, Map, UnknownStruct, decode_structs
from tests.amqp010 import strategies

UUID_BYTES = bytes(range(16))

EXAMPLES: list[tuple[str, Any, str]] = [
    ("bin8", b"\xff", "ff"),
    ("int8", -2, "fe"),
    ("uint8", 200, "c8"),
    ("char", "€", "a4"),  # iso-8859-15, not -1
    ("boolean", True, "01"),
    ("boolean", False, "00"),
    ("bin16", b"ab", "6162"),
    ("int16", -2, "fffe"),
    ("uint16", 258, "0102"),
    ("bin32", b"abcd", "61626364"),
    ("int32", -2, "fffffffe"),
    ("uint32", 2**32 - 1, "ffffffff"),
    ("float", 1.5, "3fc00000"),
    ("char-utf32", "😀", "0001f600"),
    ("bin64", b"12345678", "3132333435363738"),
    ("int64", -2, "fffffffffffffffe"),
    ("uint64", 2**64 - 1, "ffffffffffffffff"),
    ("double", -0.5, "bfe0000000000000"),
    ("datetime", 1_700_000_000, "000000006553f100"),
    ("bin128", UUID_BYTES, UUID_BYTES.hex()),
    ("uuid", UUID(bytes=UUID_BYTES), UUID_BYTES.hex()),
    ("bin256", bytes(32), "00" * 32),
    ("bin512", bytes(64), "00" * 64),
    ("bin1024", bytes(128), "00" * 128),
    ("vbin8", b"ab", "026162"),
    ("str8-latin", "é€", "02e9a4"),
    ("str8", "é", "02c3a9"),
    ("str8-utf16", "é😀", "0600e9d83dde00"),
    ("vbin16", b"ab", "00026162"),
    ("str16-latin", "é", "0001e9"),
    ("str16", "é", "0002c3a9"),
    ("str16-utf16", "é", "000200e9"),
    ("vbin32", b"ab", "000000026162"),
    ("bin40", b"12345", "3132333435"),
    ("dec32", Decimal("-1.50"), "02ffffff6a"),
    ("dec64", Decimal("1.5"), "01000000000000000f"),
    ("bin72", b"123456789", "313233343536373839"),
    ("void", None, ""),
    ("bit", True, ""),
    ("map", Map({"k": 1}), "0000000b00000001016b2100000001"),
    ("list", List([True, None]), "00000007000000020801f0"),
    ("array", Array("uint8", [1, 2]), "0000000702000000020102"),
    ("struct32", Xid(1, b"g", b"b"), "0000000c0604070000000001016701" + "62"),
    ("struct32", UnknownStruct(0x0BFF, b"xyz"), "000000050bff78797a"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), EXAMPLES, ids=[f"{each[0]}-{each[1]!r}" for each in EXAMPLES])
def test_each_type(type_: str, value: Any, expected: str) -> None:
    assert wire.encode_value(CODES[type_], value).hex() == expected
    decoded = List.from_bytes(b"\x00\x00\x00\x01" + bytes((CODES[type_],)) + bytes.fromhex(expected))
    assert decoded.items == (Item(type_, value),)
    assert type(decoded[0]) is type(value)


def test_every_type_has_an_example() -> None:
    assert {type_ for type_, _, _ in EXAMPLES} == set(CODES)
    assert set(strategies.SIMPLE) >= set(CODES) - {"map", "list", "array", "struct32"}


@given(strategies.maps)
def test_a_map_comes_back_as_it_was(map_: Map) -> None:
    again = Map.from_bytes(map_.encoded)
    assert again == map_
    assert hash(again) == hash(map_)
    assert again.entries == map_.entries
    assert Map(again.entries).encoded == map_.encoded
    assert dict(again) == dict(map_)


@given(st.lists(strategies.items, max_size=5))
def test_a_list_comes_back_as_it_was(items: list[Item]) -> None:
    made = List(items)
    again = List.from_bytes(made.encoded)
    assert again == made
    assert again.items == tuple(items)
    assert hash(again) == hash(made)
    assert List(again.items).encoded == made.encoded


@given(strategies.items, st.integers(0, 3))
def test_an_array_comes_back_as_it_was(item: Item, count: int) -> None:
    made = Array(item.type, [item.value] * count)
    again = Array.from_bytes(made.encoded)
    assert again == made
    assert hash(again) == hash(made)
    assert list(again) == [item.value] * count
    assert again.type == item.type


@given(strategies.methods)
def test_arguments_come_back_as_they_were(method: Any) -> None:
    data = wire.encode_fields(method.layout, 2, [getattr(method, field) for field in method.fields])
    extra = getattr(method, "sync", False)
    assert method.decoder.decode(b"..." + data + b"..", 3, 3 + len(data), 0, extra) == method


@given(strategies.methods, st.data())
def test_arguments_that_are_cut_short_are_refused(method: Any, data: st.DataObject) -> None:
    encoded = wire.encode_fields(method.layout, 2, [getattr(method, field) for field in method.fields])
    end = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CommandInvalid) as caught:
        method.decoder.decode(encoded, 0, end, 100)
    assert 100 <= caught.value.offset <= 100 + end


@given(st.binary(max_size=60), st.sampled_from([Map, List, Array]))
def test_what_is_taken_goes_back_to_the_same_bytes(data: bytes, kind: type[Map] | type[List] | type[Array]) -> None:
    offset: int | None = 7
    try:
        made = kind.from_bytes(data, 7)
    except ProtocolError as error:
        offset = error.offset
    else:
        assert made.encoded == data
        assert len(list(made)) == len(made)
        repr(made)
    assert offset is not None
    assert 7 <= offset <= 7 + len(data)


# What peers send in more than one form.


@pytest.mark.parametrize("kind", [Map, List, Array])
def test_a_container_may_be_of_no_bytes(kind: type[Map] | type[List] | type[Array]) -> None:
    assert list(kind.from_bytes(b"")) == []
    assert kind.from_bytes(b"").encoded == b""


def test_an_array_of_no_bytes_has_no_type() -> None:
    assert Array.from_bytes(b"").type == ""
    assert Array.from_bytes(b"") == Array("")
    with pytest.raises(ValueError, match="has a type"):
        Array("", [1])


def test_a_boolean_is_true_if_it_is_not_0() -> None:
    data = bytes.fromhex("00000002" + "0807" + "0800")
    assert list(List.from_bytes(data)) == [True, False]
    assert List.from_bytes(data).encoded == data


def test_a_key_that_comes_twice() -> None:
    map_ = Map([Entry("k", "uint8", 1), Entry("k", "uint8", 2)])
    assert map_["k"] == 2
    assert len(map_) == 1
    assert len(Map.from_bytes(map_.encoded).entries) == 2


def test_text_that_is_not_what_it_should_be_survives() -> None:
    data = bytes.fromhex("00000003" + "9500" + "02ff41" + "8502" + "c328" + "9600" + "02d800")
    assert list(List.from_bytes(data)) == ["\udcffA", "\udcc3(", "\ud800"]
    assert List(List.from_bytes(data).items).encoded == data


def test_a_nan_keeps_its_bytes() -> None:
    data = bytes.fromhex("00000001" + "23" + "7fc00001")
    assert List.from_bytes(data).encoded == data


@pytest.mark.parametrize("is_plain", [False, True])
def test_an_xid_has_two_forms(is_plain: bool) -> None:
    xid = Xid(1, b"g", b"", is_plain=is_plain)
    assert xid.encode().hex() == ("0009" if is_plain else "0000000b0604") + "070000000001016700"
    layout = bytes((wire.XID,))
    assert wire.encode_fields(layout, 2, [xid])[2:] == xid.encode()


# What plain values of Python become.


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, "boolean"),
        (1, "int32"),
        (-(2**31), "int32"),
        (2**31, "int64"),
        (-(2**63), "int64"),
        (2**63, "uint64"),
        ("x", "str16"),
        (None, "void"),
        (0.5, "double"),
        (b"x", "vbin32"),
        (bytearray(b"x"), "vbin32"),
        (UUID(int=0), "uuid"),
        (Decimal("1.5"), "dec64"),
        ({"a": {}}, "map"),
        (Map({}), "map"),
        ([1, "x"], "list"),
        ((1,), "list"),
        (List([1]), "list"),
        (Array("uint8", [1]), "array"),
        (DeliveryProperties(ttl=1), "struct32"),
        (UnknownStruct(0xFFFF, b""), "struct32"),
        (Item("uint8", 1), "uint8"),
    ],
)
def test_plain_values(value: Any, type_: str) -> None:
    made = Map({"k": value})
    assert made.entries[0].type == type_
    again = Map.from_bytes(made.encoded)
    assert again == made
    assert again["k"] == (value.value if isinstance(value, Item) else value)


def test_what_has_no_type() -> None:
    with pytest.raises(TypeError, match="object"):
        Map({"k": object()})


def test_as_mappings_and_sequences() -> None:
    map_ = Map({"a": 1, "b": [1, 2, 3]})
    assert map_ == {"a": 1, "b": [1, 2, 3]}
    assert map_ != {"a": 1}
    assert map_ != 1
    assert Map(map_) == map_
    assert "a" in map_
    assert list(map_) == ["a", "b"]
    assert map_["b"][1:] == [2, 3]
    assert map_["b"] != 5
    assert Array("uint8", [1, 2, 3])[1:] == [2, 3]
    assert Array("uint8", [1, 2]) == [1, 2]
    assert Array("uint8", [1, 2]) != 5
    assert repr(map_) == "Map({'a': 1, 'b': List([1, 2, 3])})"
    assert repr(Array("uint8", [1])) == "Array('uint8', [1])"


# What does not fit.


@pytest.mark.parametrize(
    ("type_", "value", "error"),
    [
        ("uint8", 256, struct.error),
        ("uint8", -1, struct.error),
        ("int64", 2**63, struct.error),
        ("str8", "x" * 256, ValueError),
        ("vbin16", b"x" * 65_536, ValueError),
        ("str8-latin", "Ω", ValueError),
        ("char", "ab", ValueError),
        ("char-utf32", "ab", (TypeError, ValueError)),
        ("bin40", b"1234", ValueError),
        ("dec32", Decimal(2**31), OverflowError),
        ("dec32", Decimal("1E+30"), ValueError),
        ("dec32", Decimal("1E-256"), ValueError),
        ("dec64", Decimal("NaN"), ValueError),
        ("array", [1], TypeError),
        ("vbin8", "text", TypeError),
    ],
)
def test_a_value_that_does_not_fit(type_: str, value: Any, error: Any) -> None:
    with pytest.raises(error):
        wire.encode_value(CODES[type_], value)


@pytest.mark.parametrize("name", ["str9", "0x85", "0xb1", "0xe0", "0x100", "0xzz", ""])
def test_names_of_no_type(name: str) -> None:
    with pytest.raises(ValueError, match=r"no type|invalid literal"):
        wire.code_of(name)


def test_every_code_that_may_be_has_a_name() -> None:
    for code in range(256):
        if wire.width_of(code) is None and not 0x80 <= code < 0xB0:
            with pytest.raises(ValueError, match="no type"):
                wire.code_of(wire.TYPE_NAMES[code])
        else:
            assert wire.code_of(wire.TYPE_NAMES[code]) == code


def test_an_array_of_values_without_bytes_is_bounded() -> None:
    assert len(Array.from_bytes(bytes((0xF0,)) + (1_024).to_bytes(4))) == 1_024
    with pytest.raises(IllegalArgument, match="that have no bytes"):
        Array.from_bytes(bytes((0xF0,)) + (1_025).to_bytes(4))
    with pytest.raises(ValueError, match="holds 1024"):
        Array("void", [None] * 1_025)


@pytest.mark.parametrize("code", [0xF0, 0xF1])
def test_values_without_bytes_are_counted_over_all_arrays(code: int) -> None:
    """Else a header of a few kilobytes would have many thousands of values, and take seconds to convert."""
    array = b"\xaa" + (5).to_bytes(4) + bytes((code,)) + (600).to_bytes(4)
    one = MessageProperties(application_headers=Map([Entry("k", "list", List.from_bytes((1).to_bytes(4) + array))]))
    for _ in range(3):
        assert decode_structs(one.encode()) == (one,)
    with pytest.raises(IllegalArgument, match="that have no bytes"):
        List.from_bytes((2).to_bytes(4) + array * 2)
    size = len(array) + 2
    nested = (1).to_bytes(4) + b"\1k" + array
    with pytest.raises(IllegalArgument, match="that have no bytes"):
        List.from_bytes((2).to_bytes(4) + (b"\xa8" + (size + 4).to_bytes(4) + nested) * 2)


@pytest.mark.parametrize(
    ("kind", "data", "message", "offset"),
    [
        (Map, "000000", "a count of 4 bytes in 3", 0),
        (Map, "00000001", "0 entries that has 1", 4),
        (Map, "00000000016bf0", "1 entries that has 0", 7),
        (Map, "00000001016b", "a key of 1 bytes in 1", 4),
        (Map, "00000001056bf0", "a key of 5 bytes in 2", 4),
        (Map, "00000001016b2100", "a value of 4 bytes in 1", 7),
        (Map, "00000001016bb1", "type 0xb1 is reserved", 7),
        (Map, "00000001016be0", "type 0xe0 is reserved", 7),
        (List, "00000001a000000002ff", "a value of 2 bytes in 1", 5),
        (List, "00000001950001", "a value of 1 bytes in 0", 5),
        (List, "000000019500", "a size of 2 bytes in 1", 5),
        (List, "000000018603414243", "UTF-16 in 3 bytes", 6),
        (List, "000000012700110000", "no character", 5),
        (List, "00000001ab0000000105", "a struct's code of 2 bytes in 1", 9),
        (List, "00000002f0", "1 items that has 2", 5),
        (List, "0000", "a count of 4 bytes in 2", 0),
        (Array, "02000000", "a type and a count of 5 bytes in 4", 0),
        (Array, "020000000201", "2 values of 1 bytes in 1", 5),
        (Array, "850000000201610161ff", "1 bytes left over", 9),
        (Array, "85000000030161", "1 values that has 3", 7),
        (Array, "b100000000", "type 0xb1 is reserved", 0),
        (Array, "2700000001ffffffff", "no character", 5),
        (Array, "ab0000000100000004" + "06040700", "of 4 bytes in 0", 13),
    ],
)
def test_what_is_refused(kind: Callable[..., Any], data: str, message: str, offset: int) -> None:
    with pytest.raises(CommandInvalid, match=message) as caught:
        kind.from_bytes(bytes.fromhex(data), 1000)  # type: ignore[attr-defined]
    assert caught.value.offset == 1000 + offset


@pytest.mark.parametrize(
    ("layout", "data", "message", "offset", "index"),
    [
        ("02", "", "packing flags of 2 bytes in 0", 0, None),
        ("02", "0200", "packing flags for more than 1", 0, None),
        ("02", "0001", "packing flags for more than 1", 0, None),
        ("02", "0100", "a field of 1 bytes in 0", 2, 0),
        ("f112", "020001", "a field of 2 bytes in 1", 2, 1),
        ("f122", "0300010203", "a field of 4 bytes in 3", 2, 1),
        ("f1e0", "0300010203", "a field of 4 bytes in 3", 2, 1),
        ("32", "010001020304050607", "a field of 8 bytes in 7", 2, 0),
        ("38", "010001020304050607", "a field of 8 bytes in 7", 2, 0),
        ("48", "0100010203", "a field of 16 bytes in 3", 2, 0),
        ("02", "01000102", "1 bytes left over", 3, None),
        ("f1", "010001", "1 bytes left over", 2, None),
        ("85", "0100024142" + "43", "1 bytes left over", 5, None),
        ("e1", "0100000400000001", "4 bytes of ranges, each of 8", 4, 0),
        ("e2", "010000080000000000000001", "8 bytes of ranges, each of 16", 4, 0),
        ("e3", "010000010a", "packing flags of 2 bytes in 1", 4, 0),
        ("e4", "0100" + "00000004" + "06010000", "no xid", 6, 0),
        ("e4", "0100" + "0001" + "06", "packing flags of 2 bytes in 1", 4, 0),
        ("a8", "0100" + "00000003" + "000000", "a count of 4 bytes in 3", 6, 0),
        ("ab", "0100" + "00000001" + "06", "a struct's code of 2 bytes in 1", 6, 0),
    ],
)
def test_fields_that_are_refused(layout: str, data: str, message: str, offset: int, index: int | None) -> None:
    fields = defstruct("Fields", "abcdefgh"[: len(layout) // 2])
    decoder = wire.StructDecoder(fields, bytes.fromhex(layout), 2)
    encoded = bytes.fromhex(data)
    with pytest.raises(CommandInvalid, match=message) as caught:
        decoder.decode(encoded, 0, len(encoded), 1000)
    assert caught.value.offset == 1000 + offset
    assert caught.value.field_index == index


@pytest.mark.parametrize("code", ["a8", "a9", "aa"])
def test_nesting_is_bounded(code: str) -> None:
    def nested(depth: int) -> bytes:
        data = b""
        for _ in range(depth):
            head = {"a8": "00000001" + "00" + code, "a9": "00000001" + code, "aa": code + "00000001"}[code]
            data = bytes.fromhex(head) + len(data).to_bytes(4) + data
        return data

    kind: Any = {"a8": Map, "a9": List, "aa": Array}[code]
    kind.from_bytes(nested(wire.MAX_DEPTH - 1))
    with pytest.raises(IllegalArgument, match="nested more than 128"):
        kind.from_bytes(nested(wire.MAX_DEPTH))


def test_structs_in_maps_in_structs_are_bounded() -> None:
    value: Any = Map({})
    arguments: Any = b""
    for _ in range(200):
        encoded = value.encoded
        arguments = bytes.fromhex("0701" + "0800") + len(encoded).to_bytes(4) + encoded  # exchange-query-result
        value = Map([Entry("", "struct32", UnknownStruct(0x0701, arguments[2:]))])
    with pytest.raises(IllegalArgument, match="nested"):
        Map.from_bytes(value.encoded)


def test_a_nested_struct() -> None:
    assert ReplyTo("x", "k").encode().hex() == "0006" + "0300" + "01780" + "16b"
    assert wire.decode_structs(b"") == ()
    data = DeliveryProperties(routing_key="q").encode()
    assert wire.decode_structs(data + UnknownStruct(1, b"").encode()) == (
        DeliveryProperties(routing_key="q"),
        UnknownStruct(1, b""),
    )


def test_arguments_that_no_peer_of_ours_can_name_are_kept() -> None:
    arguments = Map([Entry("x", "0x8f", b"abc"), Entry("y", "0xff", None)])
    declare = QueueDeclare("q", arguments=arguments)
    data = declare.encode()
    assert QueueDeclare.decoder.decode(data, 4, len(data)) == declare
