"""Where a message goes: each type of exchange, and exchanges behind exchanges."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicReturn, ExchangeDelete, QueueBind, QueueDelete, QueueUnbind
from amqproxy.amqp091.wire import Item, Table
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def routed(ch: Channel, exchange: str, key: str, headers: dict[str, Any] | None = None) -> int:
    """Return the number of this channel's queues that a message reaches, and empty them."""
    properties = {} if headers is None else {"headers": headers}
    ch.publish(exchange, key, **properties)
    return len(ch.drain(""))


# ------------------------------------------------------------------------------------------------ direct, fanout


@pytest.mark.parametrize(
    ("binding", "key", "goes"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "", False),
        ("", "", True),
        ("", "a", False),
        ("a.*", "a.b", False),
        ("a.*", "a.*", True),
        ("é", "é", True),
    ],
)
def test_direct(ch: Channel, q: str, binding: str, key: str, goes: bool) -> None:
    ch.bind(q, "amq.direct", binding)
    assert routed(ch, "amq.direct", key) == goes


@pytest.mark.parametrize(("binding", "key"), [("", ""), ("a", "b"), ("#", "")])
def test_fanout(ch: Channel, q: str, binding: str, key: str) -> None:
    ch.bind(q, "amq.fanout", binding)
    assert routed(ch, "amq.fanout", key) == 1


# --------------------------------------------------------------------------------------------------------- topic


@pytest.mark.parametrize(
    ("pattern", "keys", "others"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "a.B", "a.", ""]),
        ("*", ["a"], ["", "a.b", "."]),
        ("a.*", ["a.b", "a."], ["a", "a.b.c", "b.a"]),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
        ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c"]),
        ("*.*", ["a.b", "."], ["a", "a.b.c", ".."]),
        ("#", ["", "a", "a.b", ".", "..", "a..b"], []),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["b", "aa", "", "b.a"]),
        ("#.b", ["b", "a.b", "a.a.b", ".b"], ["b.a", "", "bb"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b", "a..b", "a.b.b"], ["a", "b", "a.b.c", "a.x"]),
        ("#.a.#", ["a", "x.a", "a.x", "x.a.x", "a.a"], ["", "x", "aa"]),
        ("#.#", ["", "a", "a.b"], []),
        ("#.*", ["a", "a.b"], [""]),
        ("*.#", ["a", "a.b", "a.b.c"], [""]),
        ("*.#.*", ["a.b", "a.b.c", "."], ["", "a"]),
        ("a.#.#.b", ["a.b", "a.x.b"], ["a", "b"]),
        ("#.a.*.#.b", ["a.x.b", "y.a.x.z.b"], ["a.b", "a.x"]),
        ("", [""], ["a", "."]),
        ("a#", ["a#"], ["a", "ab", "a.b"]),
        ("a*", ["a*"], ["a", "ab"]),
        ("**", ["**"], ["a.b", "a"]),
        ("a.", ["a."], ["a", "a.b"]),
    ],
)
def test_topic(ch: Channel, q: str, pattern: str, keys: list[str], others: list[str]) -> None:
    ch.bind(q, "amq.topic", pattern)
    assert [key for key in keys + others if routed(ch, "amq.topic", key)] == keys


def test_topic_patterns_that_meet_give_one_copy(ch: Channel, q: str) -> None:
    for pattern in ("#", "a.*", "*.b", "a.b", "a.#"):
        ch.bind(q, "amq.topic", pattern)
    assert routed(ch, "amq.topic", "a.b") == 1


def test_topic_pattern_taken_back(ch: Channel, q: str) -> None:
    for pattern in ("a.#", "a.*.c", "a.b.c"):
        ch.bind(q, "amq.topic", pattern)
    for pattern, left in (("a.b.c", 1), ("a.#", 1), ("a.*.c", 0)):
        ch.call(QueueUnbind(queue=q, exchange="amq.topic", routing_key=pattern))
        assert routed(ch, "amq.topic", "a.b.c") == left


# ------------------------------------------------------------------------------------------------------- headers

VOID = Item("V", None)


@pytest.mark.parametrize(
    ("binding", "matching", "others"),
    [
        ({"x-match": "all", "a": 1, "b": "2"}, [{"a": 1, "b": "2"}, {"a": 1, "b": "2", "c": 3}], [{"a": 1}, {}, None]),
        ({"a": 1, "b": 2}, [{"a": 1, "b": 2}], [{"a": 1}]),
        ({"x-match": "any", "a": 1, "b": 2}, [{"a": 1}, {"b": 2}, {"a": 0, "b": 2}], [{"a": 2}, {"c": 1}, {}, None]),
        ({"x-match": "all"}, [{}, {"a": 1}, None], []),
        ({"x-match": "any"}, [], [{}, {"a": 1}, None]),
        ({}, [{}, {"a": 1}, None], []),
        ({"x-match": "all", "a": VOID}, [{"a": 1}, {"a": "x"}, {"a": VOID}], [{"b": 1}, {}]),
        ({"x-match": "any", "a": VOID, "b": 1}, [{"a": 1}, {"b": 1}], [{"b": 2}, {}]),
        ({"x-match": "all", "x-a": 1, "b": 2}, [{"b": 2}, {"b": 2, "x-a": 9}], [{"x-a": 1}]),
        ({"x-match": "any", "x-a": 1, "b": 2}, [{"b": 2}], [{"x-a": 1}]),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, [{"x-a": 1, "b": 2}], [{"b": 2}, {"x-a": 1}]),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, [{"x-a": 1}, {"b": 2}], [{"x-a": 2}, {}]),
        ({"a": 1}, [{"a": Item("l", 1)}, {"a": Item("b", 1)}], [{"a": "1"}, {"a": True}]),
        ({"a": "x"}, [{"a": "x"}, {"a": Item("x", b"x")}], [{"a": "X"}]),
        ({"a": True}, [{"a": True}], [{"a": False}, {"a": 1}]),
        ({"a": 1.5}, [{"a": 1.5}, {"a": Item("f", 1.5)}], [{"a": 1}]),
        ({"a": {"b": 1}}, [{"a": {"b": 1}}], [{"a": {"b": 2}}]),
        ({"a": [1, "2"]}, [{"a": [1, "2"]}], [{"a": ["2", 1]}]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_headers(
    ch: Channel, q: str, binding: dict[str, Any], matching: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    ch.bind(q, "amq.headers", "any key", binding)
    assert [headers for headers in matching + others if routed(ch, "amq.headers", "", headers)] == matching


def test_whether_an_integer_equals_a_float(ch: Channel, q: str, profile: Profile) -> None:
    ch.bind(q, "amq.headers", "", {"a": 1})
    assert bool(routed(ch, "amq.headers", "", {"a": 1.0})) is profile.equates_floats


# ------------------------------------------------------------------------------------------------- the default one


def test_default_exchange_knows_every_queue_by_name(ch: Channel, q: str) -> None:
    assert routed(ch, "", q) == 1


def test_default_exchange_knows_nothing_else(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.direct", "k")
    assert routed(ch, "", "k") == 0


# ----------------------------------------------------------------------------------------------------- bindings


def test_many_bindings_give_one_copy(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.direct", "a")
    ch.bind(q, "amq.direct", "a", {"other": 1})
    assert routed(ch, "amq.direct", "a") == 1


def test_bindings_differ_by_arguments(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.direct", "a")
    ch.bind(q, "amq.direct", "a", {"other": 1})
    ch.call(QueueUnbind(queue=q, exchange="amq.direct", routing_key="a"))
    assert routed(ch, "amq.direct", "a") == 1
    ch.call(QueueUnbind(queue=q, exchange="amq.direct", routing_key="a", arguments=Table({"other": 1})))
    assert routed(ch, "amq.direct", "a") == 0


def test_an_empty_name_is_the_last_queue_declared(ch: Channel) -> None:
    ch.declare(exclusive=True)
    ch.declare(exclusive=True)
    ch.bind("", "amq.direct", "last")
    assert routed(ch, "amq.direct", "last") == 1


def test_an_empty_key_is_the_last_queue_too(ch: Channel) -> None:
    """With neither a queue nor a key, the binding's key is the queue's name."""
    queue = ch.declare(exclusive=True)
    ch.bind("", "amq.direct", "")
    assert routed(ch, "amq.direct", queue) == 1
    assert routed(ch, "amq.direct", "") == 0


def test_an_empty_key_of_a_named_queue_is_empty(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.direct", "")
    assert routed(ch, "amq.direct", q) == 0
    assert routed(ch, "amq.direct", "") == 1


def test_bindings_go_with_the_queue(scene: Scene, ch: Channel) -> None:
    ch.declare(scene.q)
    ch.bind(scene.q, "amq.direct", scene.q)
    ch.call(QueueDelete(queue=scene.q))
    ch.declare(scene.q, exclusive=True)
    assert routed(ch, "amq.direct", scene.q) == 0


def test_bind_no_wait(ch: Channel, q: str) -> None:
    ch.send(QueueBind(queue=q, exchange="amq.direct", routing_key="k", no_wait=True))
    assert routed(ch, "amq.direct", "k") == 1
    ch.expect_nothing()


def test_transient_queue_on_durable_exchange(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.topic", "k")
    assert routed(ch, "amq.topic", "k") == 1


# ------------------------------------------------------------------------------------------ exchanges to exchanges


def test_exchange_to_exchange(scene: Scene, ch: Channel, q: str) -> None:
    """Each one on the way looks at the same key and the same headers."""
    ch.exchange(scene.x, "topic")
    ch.bind_exchange(scene.x, "amq.direct", "a.b")
    ch.bind(q, scene.x, "a.*")
    assert routed(ch, "amq.direct", "a.b") == 1
    assert routed(ch, "amq.direct", "a.c") == 0


def test_a_delivery_names_exchange_and_routing_key(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.exchange(scene.x2, "fanout")
    ch.bind_exchange(scene.x2, scene.x)
    ch.bind(q, scene.x2)
    ch.publish(scene.x, "k")
    received = ch.get(q)
    assert received
    assert (received.method.exchange, received.method.routing_key) == (scene.x, "k")


def test_cycle(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.exchange(scene.x2, "fanout")
    ch.bind_exchange(scene.x, scene.x2)
    ch.bind_exchange(scene.x2, scene.x)
    ch.bind(q, scene.x)
    ch.bind(q, scene.x2)
    assert routed(ch, scene.x, "") == 1
    assert routed(ch, scene.x2, "") == 1


def test_bound_to_itself(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.bind_exchange(scene.x, scene.x)
    ch.bind(q, scene.x)
    assert routed(ch, scene.x, "") == 1


def test_two_ways_give_one_copy(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.exchange(scene.x2, "fanout")
    ch.bind_exchange(scene.x2, scene.x)
    ch.bind(q, scene.x)
    ch.bind(q, scene.x2)
    assert routed(ch, scene.x, "") == 1


# --------------------------------------------------------------------------------------------- alternate exchanges


def alternate(scene: Scene, ch: Channel, type_: str = "direct") -> None:
    """`x`, and `x2` for what it cannot route."""
    ch.exchange(scene.x2, "fanout")
    ch.exchange(scene.x, type_, arguments={"alternate-exchange": scene.x2})


def test_alternate_takes_what_has_nowhere_to_go(scene: Scene, ch: Channel, q: str) -> None:
    alternate(scene, ch)
    ch.bind(q, scene.x2)
    ch.publish(scene.x, "k", b"lost")
    received = ch.get(q)
    assert received
    assert (received.body, received.method.exchange, received.method.routing_key) == (b"lost", scene.x, "k")


def test_alternate_takes_nothing_else(scene: Scene, ch: Channel, q: str) -> None:
    alternate(scene, ch)
    ch.bind(ch.declare(exclusive=True), scene.x2)
    ch.bind(q, scene.x, "k")
    ch.publish(scene.x, "k")
    assert routed(ch, scene.x, "k") == 0
    assert ch.depth(q) == 2


def test_alternate_that_is_not_there(scene: Scene, ch: Channel) -> None:
    """Nothing is wrong with it: the message has nowhere to go, as without."""
    ch.exchange(scene.x, arguments={"alternate-exchange": scene.x2})
    ch.publish(scene.x, "k", mandatory=True)
    ch.expect(BasicReturn, reply_code=312)


def test_alternate_made_later_counts(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, arguments={"alternate-exchange": scene.x2})
    ch.exchange(scene.x2, "fanout")
    ch.bind(q, scene.x2)
    assert routed(ch, scene.x, "k") == 1
    ch.call(ExchangeDelete(exchange=scene.x2))
    assert routed(ch, scene.x, "k") == 0


def test_alternates_in_a_circle(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, arguments={"alternate-exchange": scene.x2})
    ch.exchange(scene.x2, arguments={"alternate-exchange": scene.x})
    ch.publish(scene.x, "k", mandatory=True)
    ch.expect(BasicReturn, reply_code=312, reply_text="NO_ROUTE", exchange=scene.x, routing_key="k")


def test_alternate_of_the_second_exchange_on_the_way(scene: Scene, ch: Channel, q: str) -> None:
    """It takes what the second one cannot route, though the first has routed it elsewhere."""
    alternate(scene, ch)
    ch.bind_exchange(scene.x, "amq.direct", scene.q)
    other = ch.declare(exclusive=True)
    ch.bind(other, "amq.direct", scene.q)
    ch.bind(q, scene.x2)
    ch.publish("amq.direct", scene.q)
    assert (ch.depth(other), ch.depth(q)) == (1, 1)
