"""headers: each row was asked of RabbitMQ 3.10."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.wire import Item, Table
from amqproxy.broker.arguments import comparable
from amqproxy.broker.exchanges.direct import DirectExchange
from amqproxy.broker.exchanges.exchange import Binding
from amqproxy.broker.exchanges.headers import HeadersExchange, HeadersPattern
from tests.broker.client import connected
from tests.broker.yard import message


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, None, True),
        ({"x-match": "any"}, None, False),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "any-with-x"}, {}, False),
        ({}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2, "x-match": "any"}, {"a": 1}, True),
        ({"x-match": "any", "a": None}, {"a": 1}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": Item("b", 1)}, {"a": Item("l", 1)}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": Item("x", b"q")}, {"a": "q"}, True),
        ({"a": Item("T", 5)}, {"a": 5}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [1]}, {"a": [2]}, False),
        ({"x-match": "any", "x-foo": 1}, {"x-foo": 1}, False),
        ({"x-match": "all", "x-foo": 1}, {}, True),
        ({"x-match": "all-with-x", "x-foo": 1}, {}, False),
        ({"x-match": "any-with-x", "x-foo": 1}, {"x-foo": 1}, True),
    ],
)
def test_matches(arguments: dict[str, Any], headers: dict[str, Any] | None, expected: bool) -> None:
    client = connected()
    client.declare("q")
    client.bind("q", "amq.headers", **arguments)
    client.publish("amq.headers", "", **({} if headers is None else {"headers": headers}))
    assert client.depth("q") == expected


values = st.sampled_from([None, 1, 2, 1.0, True, "1", Item("x", b"1"), {"a": 1}, [1]])
headers = st.dictionaries(st.sampled_from(["a", "b", "x-c"]), values, max_size=3)
ways = st.sampled_from(["all", "any", "all-with-x", "any-with-x"])


@given(st.lists(st.tuples(ways, headers), max_size=6), st.lists(st.integers(0, 5), max_size=3), headers)
def test_looking_at_few_patterns_finds_the_same(
    patterns: list[tuple[str, Any]], unbound: list[int], sent: dict[str, Any]
) -> None:
    exchange = HeadersExchange("x")
    bindings = [
        Binding(DirectExchange(f"{n}"), "", Table({**each, "x-match": how})) for n, (how, each) in enumerate(patterns)
    ]
    for binding in bindings:
        exchange.bind(binding)
    left = [binding for number, binding in enumerate(bindings) if number not in unbound]
    for binding in bindings:
        if binding not in left:
            exchange.unbind(binding)
    decoded = message(headers=sent).properties.headers
    found = {each.name: comparable(each.value) for each in reversed(decoded.fields)}
    expected = {binding.destination.name for binding in left if HeadersPattern(binding.arguments).fits(found)}
    assert {place.name for place in exchange.route("", message(headers=sent))} == expected


def test_what_asks_for_other_headers_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = HeadersExchange("x")
    for number in range(1000):
        exchange.bind(Binding(DirectExchange(f"{number}"), "", Table({"kind": "all", "number": number})))
    looked: list[HeadersPattern] = []
    fits = HeadersPattern.fits
    monkeypatch.setattr(HeadersPattern, "fits", lambda self, found: looked.append(self) or fits(self, found))
    places = list(exchange.route("", message(headers={"kind": "all", "number": 7})))
    assert [place.name for place in places] == ["7"]
    assert len(looked) < 5
