"""Queues that deliver by priority."""

from __future__ import annotations

import time

import pytest

from amqproxy.amqp091.methods import QueueDelete
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel, until
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


# ------------------------------------------------------------------------------------------------ of quorum queues


@pytest.fixture
def quorum(scene: Scene, ch: Channel) -> str:
    queue = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum"})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    ch.confirms()
    return queue


def publish(ch: Channel, queue: str, *priorities: int | None) -> None:
    for number, priority in enumerate(priorities):
        ch.publish("", queue, b"%d" % number, priority=priority)
        assert ch.outcome() == "ack"


def by_turns(priorities: list[int | None]) -> list[int]:
    """Each third message is a normal one, if that is older: its priority is 4 at most."""
    waiting = {number: (priority or 0) > 4 for number, priority in enumerate(priorities)}
    order: list[int] = []
    while waiting:
        high, normal = ([each for each, is_high in waiting.items() if is_high is which] for which in (True, False))
        is_turn = len(order) % 3 == 2 and bool(normal) and (not high or normal[0] < high[0])
        order.append((normal if is_turn or not high else high)[0])
        del waiting[order[-1]]
    return order


@pytest.mark.unreached("two levels")
@pytest.mark.parametrize(
    "priorities",
    [[None, 0, 3, 4, 5, None, 9], [0, 0, 0, 9, 9, 9, 9, 9], [9, 9, 9, 9, 0, 0], [31, 32, 255, 30, 1]],
    ids=str,
)
def test_order_of_a_quorum_queue(ch: Channel, profile: Profile, quorum: str, priorities: list[int | None]) -> None:
    publish(ch, quorum, *priorities)
    numbers = range(len(priorities))
    match profile.quorum_priorities:
        case 1:
            order = list(numbers)
        case 2:
            order = by_turns(priorities)
        case levels:
            level = [min(4 if each is None else each, levels - 1) for each in priorities]
            order = sorted(numbers, key=lambda number: -level[number])
    got = [until(lambda: ch.get(quorum), "a message") for _ in numbers]
    assert [int(each.body) for each in got] == order


@pytest.mark.unreached("two levels")
def test_messages_that_came_back_to_a_quorum_queue_come_first(ch: Channel, profile: Profile, quorum: str) -> None:
    """In the order in which they came back, whatever their priority."""
    if profile.quorum_priorities == 1:
        pytest.skip("without priorities, they go to the back: see test_quorum.py")
    publish(ch, quorum, 0, 9, 9)
    first, second, third = (until(lambda: ch.get(quorum, no_ack=False), "a message") for _ in range(3))
    assert [each.body for each in (first, second, third)] == [b"1", b"2", b"0"]
    for each in (third, second):
        ch.reject(each, requeue=True)
    ch.ack(first)
    publish(ch, quorum, 31)
    assert ch.depth(quorum) == 3
    bodies = [until(lambda: ch.get(quorum), "a message").body for _ in range(3)]
    assert bodies == [b"0", b"2", b"0"]


@pytest.mark.unreached("two levels")
def test_a_full_quorum_queue_drops_what_it_would_deliver_first(scene: Scene, ch: Channel, profile: Profile) -> None:
    queue = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum", "x-max-length": 2})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    ch.confirms()
    publish(ch, queue, 0, 9, 4)
    until(lambda: ch.depth(queue) == 2, "one to be dropped")
    left = [until(lambda: ch.get(queue), "a message").body for _ in range(2)]
    assert left == {1: [b"1", b"2"], 2: [b"0", b"2"], 32: [b"2", b"0"]}[profile.quorum_priorities]
