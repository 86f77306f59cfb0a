"""Messages that a queue drops by itself: by age, by number, by size."""

from __future__ import annotations

import time
from typing import Any

import pytest

from amqproxy.amqp091.methods import QueueDelete
from tests.behaviours.client import Channel, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

SOON, LATE = 50, 60_000
"""Milliseconds that pass during a test, and that do not."""


def queue(ch: Channel, **arguments: Any) -> str:
    """An exclusive queue; x_max_length is x-max-length."""
    return ch.declare(arguments={name.replace("_", "-"): value for name, value in arguments.items()}, exclusive=True)


def dead(scene: Scene, ch: Channel) -> tuple[str, str]:
    """A fanout exchange for dead letters, and a queue that shows them."""
    ch.exchange(scene.x, "fanout", auto_delete=True)
    letters = ch.declare(exclusive=True)
    ch.bind(letters, scene.x)
    return scene.x, letters


def publish(ch: Channel, to: str, *bodies: bytes, **properties: Any) -> None:
    for body in bodies:
        ch.publish("", to, body, **properties)
    ch.settle(to)


# ------------------------------------------------------------------------------------------------------------- age


def test_message_ttl_of_the_queue(ch: Channel) -> None:
    q = queue(ch, x_message_ttl=SOON)
    publish(ch, q, b"1", b"2")
    assert ch.depth(q) == 2
    until(lambda: ch.depth(q) == 0, "the messages to expire")


def test_expiration_of_the_message(ch: Channel, q: str) -> None:
    publish(ch, q, b"1", expiration=str(SOON))
    publish(ch, q, b"2")
    until(lambda: ch.depth(q) == 1, "the message to expire")
    assert ch.drain(q) == [b"2"]


@pytest.mark.parametrize(("ttl", "expiration"), [(SOON, LATE), (LATE, SOON)], ids=["the queue's", "the message's"])
def test_the_shorter_one_counts(ch: Channel, ttl: int, expiration: int) -> None:
    q = queue(ch, x_message_ttl=ttl)
    publish(ch, q, b"1", expiration=str(expiration))
    until(lambda: ch.depth(q) == 0, "the message to expire")


def test_a_message_expires_at_the_head_only(ch: Channel, q: str) -> None:
    """One that is overdue waits for those before it; but it is never delivered."""
    clock = queue(ch)
    publish(ch, q, b"first", expiration=str(LATE))
    publish(ch, q, b"second", expiration=str(SOON))
    publish(ch, clock, b"", expiration=str(2 * SOON))
    until(lambda: ch.depth(clock) == 0, "time to pass")
    assert ch.depth(q) == 2
    assert ch.drain(q) == [b"first"]


def test_zero_means_now_or_never(ch: Channel) -> None:
    q = queue(ch, x_message_ttl=0)
    publish(ch, q, b"late")
    assert ch.drain(q) == []
    ch.consume(q)
    ch.publish("", q, b"in time")
    assert ch.bodies(1) == [b"in time"]


def test_an_unacknowledged_message_does_not_expire(ch: Channel) -> None:
    q, clock = queue(ch, x_message_ttl=SOON), queue(ch, x_message_ttl=2 * SOON)
    publish(ch, q, b"held")
    held = ch.get(q, no_ack=False)
    assert held
    publish(ch, clock, b"")
    until(lambda: ch.depth(clock) == 0, "time to pass")
    ch.ack(held)
    ch.expect_nothing(q)


def test_a_requeued_message_keeps_its_age(scene: Scene, ch: Channel) -> None:
    exchange, letters = dead(scene, ch)
    q, clock = queue(ch, x_message_ttl=SOON, x_dead_letter_exchange=exchange), queue(ch, x_message_ttl=2 * SOON)
    publish(ch, q, b"old")
    held = ch.get(q, no_ack=False)
    assert held
    publish(ch, clock, b"")
    until(lambda: ch.depth(clock) == 0, "time to pass")
    ch.reject(held, requeue=True)
    until(lambda: ch.depth(letters) == 1, "the message to expire at once")


def test_expiry_is_no_obstacle_to_consumers(ch: Channel) -> None:
    q = queue(ch, x_message_ttl=LATE)
    publish(ch, q, b"1", b"2", b"3")
    ch.consume(q)
    assert ch.bodies(3) == [b"1", b"2", b"3"]


# ------------------------------------------------------------------------------------------------- number and size


@pytest.mark.parametrize(
    ("arguments", "bodies", "left"),
    [
        ({"x_max_length": 2}, [b"1", b"2", b"3", b"4"], [b"3", b"4"]),
        ({"x_max_length": 0}, [b"1"], []),
        ({"x_max_length_bytes": 5}, [b"aa", b"bb", b"cc"], [b"bb", b"cc"]),
        ({"x_max_length_bytes": 5}, [b"a", b"bbbbb"], [b"bbbbb"]),
        ({"x_max_length_bytes": 5}, [b"a", b"bbbbbb"], []),
        ({"x_max_length_bytes": 0}, [b"", b"a"], []),
        ({"x_max_length": 3, "x_max_length_bytes": 4}, [b"aa", b"b", b"c", b"d"], [b"b", b"c", b"d"]),
        ({"x_max_length": 2, "x_max_length_bytes": 100}, [b"1", b"2", b"3"], [b"2", b"3"]),
        ({"x_max_length": 2, "x_overflow": "drop-head"}, [b"1", b"2", b"3"], [b"2", b"3"]),
        ({"x_max_length": 2, "x_overflow": "reject-publish"}, [b"1", b"2", b"3"], [b"1", b"2"]),
        ({"x_max_length": 2, "x_overflow": "reject-publish-dlx"}, [b"1", b"2", b"3"], [b"1", b"2"]),
        ({"x_max_length_bytes": 4, "x_overflow": "reject-publish"}, [b"aaa", b"bbb", b"c"], [b"aaa", b"c"]),
    ],
    ids=str,
)
def test_limits(ch: Channel, arguments: dict[str, Any], bodies: list[bytes], left: list[bytes]) -> None:
    q = queue(ch, **arguments)
    publish(ch, q, *bodies)
    assert ch.drain(q) == left


def test_unacknowledged_messages_do_not_count(ch: Channel) -> None:
    q = queue(ch, x_max_length=1)
    publish(ch, q, b"1")
    held = ch.get(q, no_ack=False)
    assert held
    publish(ch, q, b"2")
    assert ch.depth(q) == 1
    ch.reject(held, requeue=True)
    assert ch.drain(q) == [b"2"]


def test_properties_do_not_count(ch: Channel) -> None:
    q = queue(ch, x_max_length_bytes=5)
    publish(ch, q, b"12345", headers={"long": "x" * 1000})
    assert ch.drain(q) == [b"12345"]


def test_a_waiting_consumer_goes_before_the_limit(ch: Channel) -> None:
    q = queue(ch, x_max_length=0)
    ch.consume(q)
    ch.publish("", q, b"through")
    assert ch.bodies(1) == [b"through"]


@pytest.mark.parametrize(
    ("overflow", "letters_expected"),
    [("drop-head", [b"1"]), ("reject-publish", []), ("reject-publish-dlx", [b"2"])],
)
def test_what_overflows_is_a_dead_letter(
    scene: Scene, ch: Channel, overflow: str, letters_expected: list[bytes]
) -> None:
    exchange, letters = dead(scene, ch)
    q = queue(ch, x_max_length=1, x_overflow=overflow, x_dead_letter_exchange=exchange)
    publish(ch, q, b"1", b"2")
    until(lambda: ch.depth(letters) == len(letters_expected), "the dead letters")
    assert ch.drain(letters) == letters_expected


# ---------------------------------------------------------------------------------------------------- of other types


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ({"x-max-length": 2}, [b"2", b"3"]),
        pytest.param({"x-max-length-bytes": 2}, [b"2", b"3"], marks=pytest.mark.unreached("property bytes")),
        ({"x-max-length": 2, "x-overflow": "drop-head"}, [b"2", b"3"]),
    ],
    ids=str,
)
def test_limits_of_quorum_queues(scene: Scene, ch: Channel, arguments: dict[str, Any], left: list[bytes]) -> None:
    q = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum", **arguments})
    ch.confirms()
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
        assert ch.outcome() == "ack"
    if scene.profile.quorum_counts_properties and "x-max-length-bytes" in arguments:
        left = []  # each has a byte of body, and two of property flags
    assert ch.drain(q) == left
    ch.call(QueueDelete(queue=q))


def test_message_ttl_of_quorum_queues(scene: Scene, ch: Channel) -> None:
    q = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum", "x-message-ttl": SOON})
    ch.confirms()
    ch.publish("", q)
    assert ch.outcome() == "ack"
    until(lambda: ch.depth(q) == 0, "the message to expire")
    ch.call(QueueDelete(queue=q))


def test_the_count_of_a_get_is_without_what_has_expired_behind_it(ch: Channel) -> None:
    queue = ch.declare(exclusive=True)
    ch.publish("", queue, b"lasts")
    ch.publish("", queue, b"expires", expiration="30")
    time.sleep(0.1)
    assert ch.depth(queue) == 2
    got = ch.get(queue)
    assert got
    assert (got.body, got.method.message_count) == (b"lasts", 0)
