"""A virtual host on its own: what it finds, what goes with what, and where messages go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.vhost import PREDECLARED
from tests.broker.estate import NOW, Estate
from tests.broker.yard import message


@pytest.fixture
def estate() -> Estate:
    return Estate()


def test_what_is_there_from_the_beginning(estate: Estate) -> None:
    assert {name: exchange.type for name, exchange in estate.vhost.exchanges.items()} == PREDECLARED
    assert all(exchange.durable for exchange in estate.vhost.exchanges.values())
    assert [name for name, exchange in estate.vhost.exchanges.items() if exchange.internal] == ["amq.rabbitmq.trace"]
    assert (estate.vhost.queues, estate.events, estate.vhost.next_deadline) == ({}, [], float("inf"))


REFUSED: list[tuple[Callable[[Estate], object], int, str]] = [
    (lambda estate: estate.vhost.exchange("nil"), 404, "no exchange 'nil' in vhost 'v'"),
    (lambda estate: estate.vhost.queue("nil"), 404, "no queue 'nil' in vhost 'v'"),
    (lambda estate: estate.exchange("x", "carousel"), 503, "unknown exchange type 'carousel'"),
    (lambda estate: estate.exchange("x", ""), 503, "invalid exchange type ''"),
    (lambda estate: estate.exchange("amq.x"), 403, "exchange name 'amq.x' contains reserved prefix 'amq.*'"),
    (
        lambda estate: estate.vhost.check_queue_name("amq.q"),
        403,
        "queue name 'amq.q' contains reserved prefix 'amq.*'",
    ),
    (
        lambda estate: [estate.exchange(), estate.exchange(type_="fanout")],
        406,
        "inequivalent arg 'type' for exchange 'x' in vhost 'v': received 'fanout' but current is 'direct'",
    ),
    (
        lambda estate: [estate.queue(), estate.queue(auto_delete=True)],
        406,
        "inequivalent arg 'auto_delete' for queue 'q' in vhost 'v': received 'true' but current is 'false'",
    ),
    (
        lambda estate: [
            estate.bind(estate.exchange(), estate.queue()),
            estate.vhost.delete_exchange("x", if_unused=True),
        ],
        406,
        "exchange 'x' in vhost 'v' in use",
    ),
    (
        lambda estate: [estate.vhost.set_limits({"max-queues": 0}), estate.vhost.check_queue_limit("q")],
        406,
        "cannot declare queue 'q': queue limit in vhost 'v' (0) is reached",
    ),
]


@pytest.mark.parametrize(("act", "code", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_is_refused(act: Callable[[Estate], object], code: int, text: str, estate: Estate) -> None:
    with pytest.raises(ProtocolError) as refused:
        act(estate)
    assert refused.value.code == code
    assert text in str(refused.value)


def test_what_is_there_is_found_again_and_what_is_not_is_deleted_without_a_word(estate: Estate) -> None:
    assert estate.queue() is estate.queue() is estate.vhost.queue("q")
    assert estate.exchange() is estate.exchange() is estate.vhost.exchange("x")
    assert estate.vhost.delete_queue("nil", None) == 0
    estate.vhost.delete_exchange("nil")
    assert estate.events == ["queue.created", "exchange.created"]


def test_names_of_the_brokers_own_are_never_the_same(estate: Estate) -> None:
    names = {estate.queue("").name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("amq.gen-") for name in names)


# --- what goes with what


def test_a_queue_takes_its_bindings_along_and_they_the_exchanges_that_are_not_used_any_more(estate: Estate) -> None:
    queue = estate.queue()
    first, second = estate.exchange("first", auto_delete=True), estate.exchange("second", auto_delete=True)
    stays = estate.exchange("stays")
    estate.bind(first, second)
    estate.bind(second, queue)
    estate.bind(stays, queue, "a")
    estate.bind(stays, queue, "a")  # is there already
    estate.bind(stays, queue, "b")
    queue.publish(message(b"1"), NOW)
    assert len(estate.vhost.bindings_to(queue)) == 3
    estate.events.clear()
    assert estate.vhost.delete_queue("q", None) == 1
    assert sorted(estate.events) == ["binding.deleted"] * 4 + ["exchange.deleted"] * 2 + ["queue.deleted"]
    assert {"first", "second"}.isdisjoint(estate.vhost.exchanges)
    assert not stays.bindings
    assert queue.is_deleted
    assert estate.vhost.remove_queue(queue) == 0


def test_an_exchange_takes_its_bindings_along_on_both_sides(estate: Estate) -> None:
    source, middle, queue = estate.exchange("source"), estate.exchange("middle"), estate.queue()
    estate.bind(source, middle)
    estate.bind(middle, queue)
    estate.vhost.delete_exchange("middle")
    assert not source.bindings
    assert estate.vhost.bindings_to(queue) == []


# --- time


def test_due_is_what_is_due_first(estate: Estate) -> None:
    queue = estate.queue(message_ttl=5000)
    delayed = estate.exchange("later", "x-delayed-message", x_delayed_type="fanout")
    estate.bind(delayed, queue)
    estate.vhost.publish(delayed, message(b"held", headers={"x-delay": 3000}), NOW)
    estate.vhost.publish(estate.vhost.exchange(""), message(b"goes first", key="q"), NOW)
    assert estate.vhost.next_deadline == NOW + 3
    estate.vhost.tick(NOW + 3)
    assert (queue.message_count, estate.vhost.next_deadline) == (2, NOW + 5)
    estate.vhost.tick(NOW + 5)
    assert (queue.message_count, estate.vhost.next_deadline) == (1, NOW + 8)
    estate.vhost.tick(NOW + 8)
    assert (queue.message_count, estate.vhost.next_deadline) == (0, float("inf"))


def test_what_is_due_of_one_kind_does_not_keep_the_others_waiting(estate: Estate) -> None:
    class Busy:
        """What is due again at once."""

        def tick(self, now: float) -> None:
            estate.vhost.timed.set(self, now)

    queue = estate.queue(message_ttl=1000)
    estate.vhost.publish(estate.vhost.exchange(""), message(b"expires", key="q"), NOW)
    for _ in range(100):
        estate.vhost.timed.set(Busy(), NOW)
    estate.vhost.work.quantum.limit(16)
    estate.vhost.tick(NOW + 1)
    assert queue.message_count == 0


# --- policies, and what is set for the whole


def test_a_policy_holds_for_what_is_there_and_what_comes(estate: Estate) -> None:
    there = estate.queue("q1")
    for number in range(5):
        there.publish(message(f"{number}"), NOW)
    estate.vhost.set_policy(make_policy("short", "^q", {"max-length": 2}, 0, "queues"), NOW)
    comes = estate.queue("q2")
    assert (there.message_count, there.policy_names, comes.policy_names) == (2, ("short", None), ("short", None))
    assert estate.vhost.clear_policy("short", NOW)
    assert not estate.vhost.clear_policy("short", NOW)
    assert (there.policy_names, comes.policy_names) == ((None, None), (None, None))
    assert estate.events == ["queue.created", "policy.set", "queue.created", "policy.cleared"]


def test_what_is_set_for_the_whole_is_reported(estate: Estate) -> None:
    estate.vhost.describe("for tests", ["a", "b"])
    estate.vhost.set_limits({"max-queues": 3})
    estate.vhost.trace(True)
    assert (estate.vhost.description, estate.vhost.tags, estate.vhost.limits) == (
        "for tests",
        ["a", "b"],
        {"max-queues": 3},
    )
    assert estate.events == ["vhost.metadata.set", "vhost.limits.set", "vhost.trace.set"]
    with pytest.raises(ValueError, match="max-ques"):
        estate.vhost.set_limits({"max-ques": 3})
    assert estate.vhost.limits == {"max-queues": 3}
