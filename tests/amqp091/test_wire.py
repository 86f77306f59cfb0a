"""Tables, arrays and strings on the wire."""

import struct
from decimal import Context, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import FrameError, ProtocolError, SyntaxViolation
from amqproxy.amqp091.wire import (
    MAX_TABLE_DEPTH,
    Array,
    Field,
    Item,
    Table,
    check_table,
    encode_fields,
    encode_flagged,
    encode_short_string,
    encode_table,
)
from tests.amqp091 import strategies
from tests.amqp091.decoded_values import decode_fields, decode_flagged

VALUES = {
    "t": (True, "01"),
    "b": (-2, "fe"),
    "B": (254, "fe"),
    "s": (-2, "fffe"),
    "U": (-2, "fffe"),
    "u": (65534, "fffe"),
    "I": (-2, "fffffffe"),
    "i": (2**32 - 2, "fffffffe"),
    "l": (-2, "fffffffffffffffe"),
    "L": (-2, "fffffffffffffffe"),
    "T": (2**64 - 2, "fffffffffffffffe"),
    "f": (1.5, "3fc00000"),
    "d": (-0.1, "bfb999999999999a"),
    "D": (Decimal("3.14"), "02 0000013a"),
    "S": ("é", "00000002 c3a9"),
    "x": (b"\x00\xff", "00000002 00ff"),
    "V": (None, ""),
    "F": (Table({"k": True}), "00000004 016b7401"),
    "A": (Array([Item("t", False), Item("V", None)]), "00000003 740056"),
}
"""Of each type: a value, and its bytes as RabbitMQ reads them."""


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text)


# --- tables


@pytest.mark.parametrize("letter", VALUES)
def test_types(letter: str) -> None:
    value, wire = VALUES[letter]
    entry = b"\x01k" + letter.encode() + from_hex(wire)
    assert Table([Field("k", letter, value)]).octets == entry
    decoded = Table.from_octets(entry)
    assert decoded.fields == (Field("k", letter, value),)
    assert encode_table(decoded) == len(entry).to_bytes(4, "big") + entry


@pytest.mark.parametrize(
    ("value", "letter"),
    [
        (True, "t"), (1, "I"), (-(2**31), "I"), (2**31, "l"), ("x", "S"), (None, "V"), (1.0, "d"), (b"x", "x"),
        (bytearray(b"x"), "x"), (Decimal(1), "D"), ({"a": 1}, "F"), ([1, "x"], "A"), (Item("B", 3), "B"),
    ],
)  # fmt: skip
def test_plain_values_take_the_types_that_clients_of_rabbitmq_give_them(value: Any, letter: str) -> None:
    (field,) = Table({"k": value}).fields
    assert field.type == letter


def test_what_has_no_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no field-table type fits object"):
        Table({"k": object()})
    with pytest.raises(ValueError, match="'Z' is no field-table type"):
        Table([Field("k", "Z", 1)])


@pytest.mark.parametrize("field", [Field("k", "b", 128), Field("k", "u", -1), Field("k", "S", 5), Field("k", "i", "x")])
def test_what_does_not_fit_its_type_is_refused(field: Field) -> None:
    with pytest.raises((struct.error, ValueError, TypeError)):
        Table([field])


@pytest.mark.parametrize("value", ["-2147483649", "2147483648", "1E-256", "NaN", "Infinity"])
def test_decimals_that_do_not_fit(value: str) -> None:
    with pytest.raises(ValueError, match="decimal"):
        Table({"k": Decimal(value)})


def test_a_decimal_does_not_hang_on_the_precision_of_its_surroundings() -> None:
    with localcontext(Context(prec=2)):
        assert Table.from_octets(from_hex("016b44 ff ffffffff"))["k"] == Decimal("-1E-255")
    assert Table({"k": Decimal("1E+3")}).octets == from_hex("016b44 00 000003e8")


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("-123.45", "02 ffffcfc7"),
        ("-2147483648", "00 80000000"),
        ("2147483647", "00 7fffffff"),
        ("-0.1", "01 ffffffff"),
    ],
)
def test_decimals_are_signed(value: str, wire: str) -> None:
    table = Table({"k": Decimal(value)})
    assert table.octets == from_hex("016b44" + wire)
    assert Table.from_octets(table.octets)["k"] == Decimal(value)


def test_a_table_is_a_mapping() -> None:
    table = Table([Field("a", "I", 1), Field("b", "S", "x"), Field("a", "I", 2)])
    assert dict(table) == {"a": 1, "b": "x"}, "the first of its name"
    assert (len(table), list(table), "c" in table, table.get("c")) == (2, ["a", "b"], False, None)
    assert [field.value for field in table.fields] == [1, "x", 2], "twins are kept"
    assert Table(table) == table
    assert table == {"a": 1, "b": "x"}
    assert table != Table({"a": 1, "b": "x"})
    assert table != 5
    assert hash(table) == hash(Table(table.fields))
    assert repr(Table({"a": 1})) == "Table({'a': 1})"
    with pytest.raises(KeyError):
        table["c"]


def test_an_array_is_a_sequence() -> None:
    array = Array([1, "x", None])
    assert (array[0], array[-1], array[:2], len(array)) == (1, None, [1, "x"], 3)
    assert array == [1, "x", None]
    assert array == Array([1, "x", None])
    assert array != Array([Item("l", 1), "x", None]), "another type is another array"
    assert array != 5
    assert hash(array) == hash(Array([1, "x", None]))
    assert repr(array) == "Array([1, 'x', None])"


ODD = {
    "boolean 7": "016b7407",
    "a name twice": "016b7401 016b7400",
    "an empty name": "007401",
    "a name that is not UTF-8": "02fffe7401",
    "a name of 255 bytes": "ff" + "61" * 255 + "56",
    "text that is not UTF-8": "016b53 00000002 fffe",
    "a signalling NaN": "016b66 7fa00000",
    "a decimal of many digits": "016b44 ff ffffffff",
}


@pytest.mark.parametrize("wire", ODD.values(), ids=ODD)
def test_odd_bytes_are_accepted_and_written_again(wire: str) -> None:
    table = Table.from_octets(from_hex(wire))
    assert table.fields
    assert encode_table(table)[4:] == from_hex(wire)


FAULTS = {
    "a name that overruns": ("05616263", FrameError, 1),
    "no type after a name": ("0161", FrameError, 2),
    "an unknown type": ("01617a", SyntaxViolation, 2),
    "a number that overruns": ("016149000000", FrameError, 3),
    "half of a length": ("01615300", FrameError, 3),
    "a string that overruns": ("01615300000002 61", FrameError, 7),
    "a length past all bounds": ("016153ffffffff", FrameError, 7),
    "an array that overruns": ("01614100000002 56", FrameError, 7),
    "a number that overruns its array": ("01614100000002 4900 00000000", FrameError, 8),
    "an unknown type in an array": ("01614100000001 7a", SyntaxViolation, 7),
    "a fault in a table in a table": ("016146 00000003 01627a", SyntaxViolation, 9),
}


@pytest.mark.parametrize(("wire", "error", "offset"), FAULTS.values(), ids=FAULTS)
def test_malformed_tables_name_their_place(wire: str, error: type[ProtocolError], offset: int) -> None:
    with pytest.raises(error) as caught:
        Table.from_octets(from_hex(wire), offset=100)
    assert caught.value.offset == 100 + offset


def nested(depth: int, letter: str) -> bytes:
    entries = b""
    for _ in range(depth):
        entries = b"\x01k" * (letter == "F") + letter.encode() + len(entries).to_bytes(4, "big") + entries
    return entries if letter == "F" else b"\x01k" + entries


def levels_of(value: Any) -> tuple[int, Any]:
    """Return the nesting depth of the innermost value, and the value."""
    levels = 0
    while isinstance(value, Table | Array) and len(value):
        value = value["k"] if isinstance(value, Table) else value[0]
        levels += 1
    return levels, value


@pytest.mark.parametrize("letter", "FA")
def test_tables_are_decoded_to_a_limit_and_octets_below_it(letter: str) -> None:
    deepest = nested(MAX_TABLE_DEPTH, letter)
    levels, innermost = levels_of(Table.from_octets(deepest))
    assert (levels, len(innermost)) == (MAX_TABLE_DEPTH, 0)
    assert isinstance(innermost, Table | Array)
    too_deep = nested(MAX_TABLE_DEPTH + 5, letter)
    levels, innermost = levels_of(Table.from_octets(too_deep))
    assert levels == MAX_TABLE_DEPTH + 1
    assert innermost == nested(4, letter)[2 if letter == "A" else 0 :]
    assert Table(Table.from_octets(too_deep).fields).octets == too_deep


@pytest.mark.parametrize("letter", "FA")
def test_a_bomb_of_nested_tables_is_taken_at_once(letter: str) -> None:
    """However deep, nothing recurses: 100,000 levels would overflow the stack of a thread."""
    table = Table.from_octets(nested(100_000, letter))
    assert repr(table)
    assert Table(table.fields) == table


def test_faults_below_many_levels_name_their_place() -> None:
    entries = nested(1000, "F")
    with pytest.raises(FrameError) as caught:
        Table.from_octets(entries[:-4] + b"\0\0\0\1")
    assert caught.value.offset == len(entries)


NOT_ERLANG = {
    "int16 of the specification": "0161550001",
    "float NaN": "0161667fc00000",
    "float -Inf": "016166ff800000",
    "double NaN": "0161647ff8000000000000",
    "double Inf": "0161647ff0000000000000",
    "within an array": "01614100000005667f800000",
}


@pytest.mark.parametrize("wire", NOT_ERLANG.values(), ids=NOT_ERLANG)
def test_what_erlang_does_not_have_is_refused_on_request(wire: str) -> None:
    octets = from_hex(wire)
    check_table(octets, 0, len(octets))
    with pytest.raises(SyntaxViolation):
        check_table(octets, 0, len(octets), is_erlang=True)


@pytest.mark.parametrize("wire", ["0161667f7fffff", "0161647fefffffffffffff", "0161730001", "016166ff7fffff"])
def test_what_erlang_has_is_taken(wire: str) -> None:
    octets = from_hex(wire)
    check_table(octets, 0, len(octets), is_erlang=True)


def test_only_the_part_that_is_named_is_checked() -> None:
    check_table(b"zz\x01kVzz", 2, 5)
    with pytest.raises(FrameError):
        check_table(b"zz\x01kVzz", 2, 6)


# --- the arguments of methods


@pytest.mark.parametrize(
    ("layout", "values", "wire"),
    [
        (b"", [], ""),
        (b"ohlq", [1, 2, 3, 4], "01 0002 00000003 0000000000000004"),
        (b"ohlq", [255, 2**16 - 1, 2**32 - 1, 2**64 - 1], "ff" * 15),
        (b"bbb", [True, False, True], "05"),
        (b"b" * 9, [False] * 8 + [True], "00 01"),
        (b"bob", [True, 7, True], "01 07 01"),
        (b"su", ["é", "\udcff"], "02c3a9 01ff"),
        (b"SF", [b"\x00", Table()], "00000001 00 00000000"),
    ],
)
def test_fields(layout: bytes, values: list[Any], wire: str) -> None:
    assert encode_fields(layout, values) == from_hex(wire)
    padded = b"??" + from_hex(wire) + b"??"
    assert decode_fields(layout, padded, 2, len(padded) - 2) == values


@pytest.mark.parametrize("layout", "ohlqsuSFb")
def test_a_field_does_not_read_past_its_end(layout: str) -> None:
    for size in range({"o": 1, "h": 2, "l": 4, "q": 8, "S": 4, "F": 4}.get(layout, 1)):
        with pytest.raises(FrameError) as caught:
            decode_fields(layout.encode(), bytes(20), 3, 3 + size)
        assert caught.value.offset == 3


def test_encoded_properties_end_with_the_last_present() -> None:
    wire = encode_flagged(b"uohu", [None, 5, None, None])
    assert wire == from_hex("4000 05")
    assert decode_flagged(b"uohu", wire, 0, len(wire)) == [None, 5, None, None]


@pytest.mark.parametrize("text", ["", "a" * 255, "\udc80"])
def test_short_strings(text: str) -> None:
    assert decode_fields(b"u", encode_short_string(text), 0, len(text) + 1) == [text]


# --- properties


@given(strategies.tables)
def test_a_table_is_read_as_it_was_written(table: Table) -> None:
    decoded = Table.from_octets(table.octets)
    assert decoded.fields == table.fields
    assert Table(decoded.fields).octets == table.octets


@given(st.one_of(st.binary(max_size=80), strategies.mutated(strategies.tables.map(lambda table: table.octets))))
def test_any_bytes_are_a_table_that_gives_them_back_or_a_protocol_error(wire: bytes) -> None:
    table = strategies.attempt(Table.from_octets, wire, 7)
    if isinstance(table, ProtocolError):
        assert table.code in (501, 502)
        assert table.offset is not None
        assert 7 <= table.offset <= 7 + len(wire)
        return
    assert encode_table(table)[4:] == wire
    assert Table(table.fields).fields == table.fields or "nan" in repr(table)
    assert set(table) == {field.name for field in table.fields}
    repr(table)


@given(st.sampled_from([b"ohlqsuSFbb", b"bsbF", b"F", b"uuu"]), st.binary(max_size=60))
def test_any_bytes_are_fields_or_a_protocol_error(layout: bytes, wire: bytes) -> None:
    for decode in (decode_fields, decode_flagged):
        values = strategies.attempt(decode, layout, wire, 0, len(wire))
        if isinstance(values, ProtocolError):
            assert values.offset is not None
            assert values.offset <= len(wire)
        else:
            assert len(values) <= len(layout)
