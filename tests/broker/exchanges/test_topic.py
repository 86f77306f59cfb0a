"""topic: each row was asked of RabbitMQ 3.10."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.wire import Table
from amqproxy.broker.exchanges.exchange import NO_ARGUMENTS, Binding
from amqproxy.broker.exchanges.topic import TopicExchange, words_of
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost

MESSAGE = Message("x", "", bytes(14), b"")


def queue(name: str = "q") -> Queue:
    return Queue(name, VirtualHost("/"), arguments=Table())


def fits(pattern: str, key: str) -> bool:
    exchange = TopicExchange("x")
    exchange.bind(Binding(queue(), pattern, NO_ARGUMENTS))
    return bool(list(exchange.route(key, MESSAGE)))


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("", "", True),
        ("*", "", False),
        ("#", "", True),
        ("#.#", "", True),
        ("*.#", "", False),
        ("a.#", "a.", True),
        ("a.*", "a.", True),
        ("*.*", ".", True),
        ("..", "..", True),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("a.#.b", "a.b", True),
        ("#", "#", True),
        ("*", "#", True),
        ("*", "*", True),
        ("a", "*", False),
        ("#.a", "a", True),
        ("#.a.#", "b.a.c.a.d", True),
        ("*.a", "a", False),
        ("a.b", "a.b.c", False),
    ],
)
def test_patterns(pattern: str, key: str, expected: bool) -> None:
    assert fits(pattern, key) is expected


def _matches(pattern: list[str], words: list[str]) -> bool:
    """The definition, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=5).map(".".join),
    st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=5).map(".".join),
)
def test_as_defined(pattern: str, key: str) -> None:
    assert fits(pattern, key) is _matches(words_of(pattern), words_of(key))


def test_nothing_is_left_of_what_is_unbound() -> None:
    exchange = TopicExchange("x")
    bindings = [Binding(queue(), ".".join(words), NO_ARGUMENTS) for words in product("ab*#", repeat=3)]
    for binding in bindings:
        exchange.bind(binding)
    for binding in bindings:
        assert binding.destination in exchange.route(binding.routing_key, MESSAGE)
        exchange.unbind(binding)
        assert binding.destination not in exchange.route(binding.routing_key, MESSAGE)
    assert not exchange._root.children


@pytest.mark.parametrize("words", [("#", "a"), ("*", "#"), ("#",)])
def test_each_place_is_visited_once_however_many_ways_lead_there(words: tuple[str, ...]) -> None:
    exchange = TopicExchange("x")
    pattern = [*words * 20]
    for first in "abc":
        exchange.bind(Binding(queue(), ".".join([first, *pattern]), NO_ARGUMENTS))
    found = list(exchange.route(".".join(["a"] * 100), MESSAGE))
    assert len(found) == 1
    assert exchange.visited <= 2 * len(pattern) + 4


def test_ten_thousand_bindings_cost_a_key_nothing() -> None:
    exchange = TopicExchange("x")
    for number in range(10_000):
        exchange.bind(Binding(queue(f"q{number}"), f"area.{number}.*", NO_ARGUMENTS))
    found = list(exchange.route("area.77.x", MESSAGE))
    assert [each.name for each in found] == ["q77"]
    assert exchange.visited < 10
