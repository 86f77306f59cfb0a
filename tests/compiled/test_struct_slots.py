"""Structs that are filled in where their fields are, in memory that is used again, are those that a call makes."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicDeliver
from amqproxy.amqp091.wire import Table
from amqproxy.compiled.struct_slots import MAX_FIELDS, places_of, slots_of


class Pair(msgspec.Struct, frozen=True, gc=False):
    one: Any
    two: Any = None


class Tracked(msgspec.Struct):
    one: Any


class Free(msgspec.Struct, dict=True):
    one: Any


class Empty(msgspec.Struct, gc=False):
    pass


def is_compiled() -> bool:
    return slots_of(Pair) != b""


def test_where_fields_are_is_known_of_compiled_code() -> None:
    assert slots_of(Pair) in (b"", bytes((2, 3)))
    assert len(places_of(Table, ("_octets", "_fields", "_values"))) == (3 if is_compiled() else 0)


@pytest.mark.parametrize("cls", [Tracked, Free, Empty])
def test_a_struct_that_has_more_than_fields_is_made_by_a_call(cls: type[msgspec.Struct]) -> None:
    assert slots_of(cls) == b""


def test_a_struct_of_too_many_fields_is_made_by_a_call() -> None:
    fields = [(f"field_{number}", Any) for number in range(MAX_FIELDS + 1)]
    assert slots_of(msgspec.defstruct("Long", fields, gc=False)) == b""
    assert len(slots_of(msgspec.defstruct("Short", fields[:-1], gc=False))) in (0, MAX_FIELDS)


def decoded(method: Any) -> Any:
    return Frame(encode_method(1, method)).value


def test_memory_is_used_again_and_nothing_of_what_it_had_is_left() -> None:
    for count in (1, 300, 2000):
        kept = [decoded(BasicDeliver("ctag", number, True, "orders", f"key {number}")) for number in range(count)]
        assert kept == [BasicDeliver("ctag", number, True, "orders", f"key {number}") for number in range(count)]
        del kept
        made = [BasicDeliver() for _ in range(count)]
        assert made == [decoded(BasicDeliver()) for _ in range(count)]


def test_values_are_let_go_of_with_their_struct() -> None:
    long = "a text that is longer than what is known again, and so another one each time: " * 2
    raws = [encode_method(1, BasicDeliver(long, 2**40 + number)) for number in range(500)]

    def decode_all() -> None:
        for raw in raws:
            assert Frame(raw).value.consumer_tag == long

    decode_all()
    before = sys.getallocatedblocks()
    for _ in range(4):
        decode_all()
    assert sys.getallocatedblocks() - before < len(raws)


def test_a_subclass_has_memory_of_its_own_size() -> None:
    class Longer(BasicAck, frozen=True, gc=False):
        comment: str = ""
        place: int = 0

    for number in range(1000):
        longer = [Longer(number, True, "comment", number) for _ in range(3)]
        acks = [decoded(BasicAck(number, True)) for _ in range(3)]
        assert {(each.delivery_tag, each.multiple, each.comment, each.place) for each in longer} == {
            (number, True, "comment", number)
        }
        assert set(acks) == {BasicAck(number, True)}


def test_what_is_malformed_leaves_no_struct_half_made() -> None:
    raw = encode_method(1, BasicDeliver("ctag", 2**40, True, "orders", "key"))
    for size in range(11, len(raw) - 1):
        short = raw[:3] + (size - 7).to_bytes(4) + raw[7:size] + b"\xce"
        with pytest.raises(Exception, match="bytes"):
            _ = Frame(short).value
    assert decoded(BasicDeliver("ctag", 2**40, True, "orders", "key")).delivery_tag == 2**40
