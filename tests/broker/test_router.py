"""Where messages go, and which routes are cached for how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.router import MAX_ROUTES
from tests.broker.estate import NOW, Estate
from tests.broker.yard import message


@pytest.fixture
def estate() -> Estate:
    return Estate()


@pytest.mark.parametrize(
    ("exchange", "keys", "queues"),
    [
        ("", ["a"], {"a"}),
        ("", ["nil"], set()),
        ("", ["a", "b", "nil"], {"a", "b"}),
        ("direct", ["k"], {"a", "b"}),
        ("direct", ["other"], {"b"}),
        ("direct", ["k", "other"], {"a", "b"}),
        ("direct", ["nil"], {"c"}),  # the alternate exchange's
        ("direct", ["nil", "other"], {"b"}),
        ("outer", ["k"], {"a", "b"}),  # by way of another exchange
        ("round", ["k"], {"a"}),  # which leads back to itself
        ("lost", ["k"], set()),  # whose alternate is not there
    ],
)
def test_where_messages_go(exchange: str, keys: list[str], queues: set[str], estate: Estate) -> None:
    a, b, c = (estate.queue(name) for name in "abc")
    direct = estate.exchange("direct", alternate_exchange="rest")
    rest, outer, around = (estate.exchange(name, "fanout") for name in ("rest", "outer", "round"))
    estate.exchange("lost", alternate_exchange="nowhere")
    for source, destination, key in [
        (direct, a, "k"),
        (direct, b, "k"),
        (direct, b, "other"),
        (rest, c, ""),
        (outer, direct, ""),
        (around, around, ""),
        (around, a, ""),
    ]:
        estate.bind(source, destination, key)
    for _ in range(2):  # as it is found, and as it is remembered
        assert estate.goes_to(exchange, *keys) == queues


CHANGES: list[Callable[[Estate], object]] = [
    lambda estate: estate.queue("new"),
    lambda estate: estate.exchange("new"),
    lambda estate: estate.vhost.delete_queue("q", None),
    lambda estate: estate.vhost.delete_exchange("x"),
    lambda estate: estate.bind(estate.vhost.exchange("x"), estate.vhost.queue("q"), "b"),
    lambda estate: estate.vhost.unbind(estate.vhost.exchange("x"), estate.vhost.queue("q"), "a", Table()),
    lambda estate: estate.vhost.set_policy(make_policy("p", ".*", {"alternate-exchange": "y"}, 0, "exchanges"), NOW),
    lambda estate: estate.vhost.clear_policy("p", NOW),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_remembered_is_forgotten_with_every_change(change: Callable[[Estate], object], estate: Estate) -> None:
    exchange = estate.exchange()
    estate.bind(exchange, estate.queue(), "a")
    estate.vhost.set_policy(make_policy("p", "^none", {"max-length": 1}), NOW)  # for what replaces or clears it
    assert estate.vhost.router.cached(exchange, "a") is None
    estate.goes_to("x", "a")
    assert estate.vhost.router.cached(exchange, "a") == (estate.vhost.queue("q"),)
    generation = estate.vhost.generation
    change(estate)
    assert estate.vhost.generation > generation
    assert estate.vhost.router.cached(exchange, "a") is None


def test_what_more_than_the_key_decides_is_not_remembered(estate: Estate) -> None:
    by_headers = estate.exchange("x", "headers")
    estate.bind(by_headers, estate.queue())
    assert estate.goes_to("x", "a") == {"q"}
    assert estate.vhost.router.cached(by_headers, "a") is None


def test_no_more_routes_are_remembered_than_may_be(estate: Estate) -> None:
    default = estate.vhost.exchange("")
    estate.queue("kept")
    for number in range(MAX_ROUTES):
        estate.goes_to("", f"{number}")
    assert estate.vhost.router.cached(default, "0") == ()
    assert estate.goes_to("", "kept") == {"kept"}
    assert estate.vhost.router.cached(default, "0") is None
    assert estate.vhost.router.cached(default, "kept") is not None


@pytest.mark.parametrize(("delay", "is_delayed"), [(0, False), (1000, True)])
def test_a_delayed_message_has_no_queues_yet(delay: int, is_delayed: bool, estate: Estate) -> None:
    delayed = estate.exchange("x", "x-delayed-message", x_delayed_type="fanout")
    queue = estate.queue()
    estate.bind(delayed, queue)
    route = estate.vhost.router.route(delayed, message(headers={"x-delay": delay}), NOW)
    assert (route.is_delayed, route.is_stored, route.is_cacheable) == (is_delayed, False, False)
    assert route.queues == (() if is_delayed else (queue,))


@pytest.mark.parametrize(
    ("type_", "arguments", "key"),
    [
        ("topic", {}, "#.{}.#"),
        ("headers", {}, "{}"),
        ("x-delayed-message", {"x_delayed_type": "topic"}, "#.{}.#"),
        ("fanout", {}, "{}"),
    ],
)
def test_what_is_gone_over_is_part_of_the_turn(type_: str, arguments: dict[str, str], key: str, estate: Estate) -> None:
    exchange = estate.exchange("x", type_, **arguments)
    for number in range(100):
        estate.bind(exchange, estate.queue(f"q{number}"), key.format(number))
    left = estate.vhost.work.quantum.left
    estate.goes_to("x", ".".join(map(str, range(100))))
    assert left - estate.vhost.work.quantum.left >= 50
