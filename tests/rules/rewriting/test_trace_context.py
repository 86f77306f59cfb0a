"""The begin of a trace, as in W3C Trace Context."""

from __future__ import annotations

import random

import pytest

from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.rewriting.trace_context import begun, is_valid

VALID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        (VALID, True),
        (VALID.encode(), True),
        (VALID[:-2] + "00", True),
        ("cc" + VALID[2:] + "-what-the-future-brings", True),
        (VALID + "-more", False),
        ("ff" + VALID[2:], False),
        (VALID.upper(), False),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01", False),
        (VALID[:-1], False),
        ("", False),
        (None, False),
        (7, False),
        (b"\xff", False),
    ],
)
def test_what_is_valid(parent: object, expected: bool) -> None:
    assert is_valid(parent) is expected


def test_a_trace_that_is_there_goes_on() -> None:
    headers = Table({"traceparent": VALID, "tracestate": "a=1"})
    assert begun(headers, random.random) is headers


def test_a_new_one_takes_the_place_of_none_or_a_broken_one() -> None:
    headers = Table([Field("a", "B", 1), Field("traceparent", "S", "00-00"), Field("tracestate", "S", "a=1")])
    new = begun(headers, random.Random(1).random)
    assert [(field.name, field.type) for field in new.fields] == [("a", "B"), ("traceparent", "S"), ("tracestate", "S")]
    assert is_valid(new["traceparent"])
    assert new["tracestate"] == f"amqproxy={new['traceparent'].split('-')[2]}"
    assert begun(headers, random.Random(2).random) != new


def test_chance_cannot_make_it_invalid() -> None:
    assert is_valid(begun(Table(), lambda: 0.0)["traceparent"])
    assert is_valid(begun(Table(), lambda: 1 - 2**-53)["traceparent"])
