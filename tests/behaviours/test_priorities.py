"""Queues that deliver by priority."""

from __future__ import annotations

import time

import pytest

from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def ordered(ch: Channel, most: int, priorities: list[int | None]) -> list[int | None]:
    """The priorities of the messages in the order in which they come out of a queue with x-max-priority."""
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": most})
    for priority in priorities:
        ch.publish("", queue, priority=priority)
    received = []
    while message := ch.get(queue):
        received.append(message.properties.priority)
    return received


@pytest.mark.parametrize(
    ("most", "sent", "received"),
    [
        (5, [1, 5, 3], [5, 3, 1]),
        (5, [0, None, 1], [1, 0, None]),
        (5, [5, 9, 5, 200], [5, 9, 5, 200]),
        (5, [1, 5, 1, 5], [5, 5, 1, 1]),
        (1, [0, 1, 2, 0], [1, 2, 0, 0]),
        (0, [1, 5, 3], [1, 5, 3]),
        (255, [0, 255, 128], [255, 128, 0]),
    ],
    ids=str,
)
def test_order(ch: Channel, most: int, sent: list[int], received: list[int]) -> None:
    assert ordered(ch, most, sent) == received


def test_without_the_argument_priority_means_nothing(ch: Channel, q: str) -> None:
    for priority in (1, 9, 5):
        ch.publish("", q, b"%d" % priority, priority=priority)
    assert ch.drain(q) == [b"1", b"9", b"5"]


def test_order_within_a_priority(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": 2})
    for number in range(6):
        ch.publish("", queue, b"%d" % number, priority=number % 2)
    assert ch.drain(queue) == [b"1", b"3", b"5", b"0", b"2", b"4"]


def test_a_requeued_message_keeps_its_place(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": 2})
    for body, priority in ((b"low", 0), (b"high", 2)):
        ch.publish("", queue, body, priority=priority)
    high = ch.get(queue, no_ack=False)
    assert high
    ch.publish("", queue, b"higher yet later", priority=2)
    ch.reject(high, requeue=True)
    assert ch.drain(queue) == [b"high", b"higher yet later", b"low"]


def test_a_full_queue_drops_the_highest_first(ch: Channel) -> None:
    """What overflows goes from the head, and that is where the highest priority stands."""
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": 2, "x-max-length": 2})
    for body, priority in ((b"high", 2), (b"low", 0), (b"middle", 1)):
        ch.publish("", queue, body, priority=priority)
    assert ch.drain(queue) == [b"middle", b"low"]


def test_depth_counts_all(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": 3})
    for priority in range(4):
        ch.publish("", queue, priority=priority)
    assert ch.depth(queue) == 4


def test_the_count_of_a_get_is_without_what_has_expired_behind_it(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-max-priority": 2})
    ch.publish("", queue, b"low", priority=0, expiration="30")
    ch.publish("", queue, b"high", priority=2)
    time.sleep(0.1)
    assert ch.depth(queue) == 2
    got = ch.get(queue)
    assert got
    assert (got.body, got.method.message_count) == (b"high", 0)
    assert ch.depth(queue) == 0
