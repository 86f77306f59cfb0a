"""One classic queue: what it takes, which consumer gets it, and when it drops it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.errors import AccessRefused, PreconditionFailed
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_arguments import QueueSettings
from tests.broker.yard import Taker, Yard, message
from tests.example_count import example_count


@pytest.fixture
def yard() -> Yard:
    return Yard()


def waiting(queue: Queue) -> list[str]:
    return [each.body.decode() for each in queue]


# --- in and out


def test_first_in_first_out(yard: Yard) -> None:
    queue = yard.queue()
    yard.publish(queue, "1", "22", "333")
    assert (queue.message_count, queue.body_bytes) == (3, 6)
    assert yard.drain(queue) == ["1", "22", "333"]
    assert (queue.message_count, queue.body_bytes, queue.get(yard.now)) == (0, 0, None)


def test_purge_takes_what_is_ready(yard: Yard) -> None:
    queue = yard.queue(max_priority=5)
    yard.publish(queue, "1")
    yard.publish(queue, "2", "3", priority=4)
    (out,) = yard.get(queue)
    assert queue.purge() == 2
    assert (queue.message_count, queue.body_bytes, queue.unacked) == (0, 0, 1)
    queue.requeue([out], yard.now)
    assert yard.drain(queue) == ["2"]


def test_requeue_to_the_original_place(yard: Yard) -> None:
    queue = yard.queue()
    yard.publish(queue, *"12345")
    one, two, three, _ = yard.get(queue, 4)
    queue.requeue([three, one], yard.now)
    assert waiting(queue) == ["1", "3", "5"]
    queue.requeue([two], yard.now)
    assert waiting(queue) == ["1", "2", "3", "5"]
    first, *_ = yard.get(queue, 4)
    assert first.is_redelivered
    queue.ack([first], yard.now)
    assert queue.unacked == 4  # 4, 2, 3 and 5


def test_priorities(yard: Yard) -> None:
    """Above the queue's highest they count as that; none is 0."""
    queue = yard.queue(max_priority=5)
    for body, priority in (("a", 1), ("b", None), ("c", 5), ("d", 1), ("e", 200), ("f", 0)):
        yard.publish(queue, body, priority=priority)
    assert waiting(queue) == ["c", "e", "a", "d", "b", "f"]
    entries = yard.get(queue, 6)
    queue.requeue([entries[4], entries[2], entries[1]], yard.now)
    assert waiting(queue) == ["e", "a", "b"]


def test_priorities_mean_nothing_to_others(yard: Yard) -> None:
    queue = yard.queue()
    yard.publish(queue, "low", priority=0)
    yard.publish(queue, "high", priority=9)
    assert yard.drain(queue) == ["low", "high"]


# --- consumers


def test_consumers_take_turns(yard: Yard) -> None:
    queue = yard.queue()
    a, b = yard.consumer(queue), yard.consumer(queue)
    yard.publish(queue, *"1234")
    assert (a.bodies, b.bodies) == (["1", "3"], ["2", "4"])
    assert (queue.message_count, queue.unacked, a.held, b.consumer.unacked) == (0, 4, 2, 2)


def test_without_acks_nothing_is_held(yard: Yard) -> None:
    queue = yard.queue()
    a = yard.consumer(queue, no_ack=True, prefetch=1)
    yard.publish(queue, *"123")
    assert (a.bodies, queue.unacked, a.held) == (["1", "2", "3"], 0, 0)


def test_prefetch(yard: Yard) -> None:
    queue = yard.queue()
    a = yard.consumer(queue, prefetch=2)
    yard.publish(queue, *"12345")
    assert (a.bodies, queue.message_count) == (["1", "2"], 3)
    a.ack(1)
    assert a.bodies == ["1", "2", "3"]
    a.ack(0, 2)
    assert (a.bodies, queue.message_count, queue.unacked) == (["1", "2", "3", "4", "5"], 0, 2)


def test_no_room_on_the_way(yard: Yard) -> None:
    queue = yard.queue()
    a, b = yard.consumer(queue, room=1), yard.consumer(queue, room=0)
    yard.publish(queue, *"123")
    assert (a.bodies, b.bodies, queue.message_count) == (["1"], [], 2)
    b.room = 1
    assert queue.rejoin(b.consumer)
    queue.pump(yard.now)
    assert b.bodies == ["2"]
    assert not queue.rejoin(a.consumer)
    assert (a.bodies, queue.message_count) == (["1"], 1)


def test_high_priority_first(yard: Yard) -> None:
    queue = yard.queue()
    low, high = yard.consumer(queue), yard.consumer(queue, prefetch=1, arguments={"x-priority": 3})
    yard.publish(queue, *"123")
    assert (low.bodies, high.bodies) == (["2", "3"], ["1"])
    high.ack(0)
    yard.publish(queue, "4")
    assert high.bodies == ["1", "4"]


def test_a_requeued_message_goes_to_the_next_consumer(yard: Yard) -> None:
    queue = yard.queue()
    a, b = yard.consumer(queue), yard.consumer(queue)
    yard.publish(queue, "1")
    a.requeue(0)
    assert b.bodies == ["1"]
    assert b.entries[0].is_redelivered


def single_active(yard: Yard, *, kind: str = "classic") -> tuple[Queue, Taker, Taker]:
    """A queue whose active consumer is gone with two messages that it has not settled, the next consumer, and both."""
    queue = yard.queue(kind, single_active_consumer=True)
    a, b = yard.consumer(queue, prefetch=2), yard.consumer(queue)
    yard.publish(queue, *"1234")
    assert (a.bodies, b.bodies) == (["1", "2"], [])
    assert queue._round_robin.active is a.consumer
    a.cancel()
    assert queue._round_robin.active is b.consumer
    return queue, a, b


def test_a_single_active_consumer_waits_for_what_the_one_before_it_holds(yard: Yard) -> None:
    queue, a, b = single_active(yard)
    yard.publish(queue, "5")
    a.ack(0)
    assert b.bodies == []
    a.ack(1)
    assert b.bodies == ["3", "4", "5"]


def test_what_comes_back_is_handed_out_in_its_order(yard: Yard) -> None:
    _, a, b = single_active(yard)
    a.requeue(0, 1)
    assert b.bodies == ["1", "2", "3", "4"]


def test_a_further_consumer_ends_the_wait(yard: Yard) -> None:
    queue, _, b = single_active(yard)
    yard.consumer(queue)
    assert b.bodies == ["3", "4"]


def test_an_empty_queue_has_nothing_to_wait_for(yard: Yard) -> None:
    queue = yard.queue(single_active_consumer=True)
    a, b = yard.consumer(queue), yard.consumer(queue)
    yard.publish(queue, "1")
    a.cancel()
    yard.publish(queue, "2")
    assert (a.bodies, b.bodies) == (["1"], ["2"])


def test_a_quorum_queue_hands_over_at_once(yard: Yard) -> None:
    _, _, b = single_active(yard, kind="quorum")
    assert b.bodies == ["3", "4"]


@pytest.mark.parametrize(
    ("arguments", "first", "second"),
    [
        ({}, {}, {"exclusive": True}),
        ({}, {"exclusive": True}, {}),
        ({}, {"exclusive": True}, {"exclusive": True}),
        ({"single_active_consumer": True}, None, {"exclusive": True}),
    ],
)
def test_exclusive(
    yard: Yard, arguments: dict[str, Any], first: dict[str, bool] | None, second: dict[str, bool]
) -> None:
    queue = yard.queue(**arguments)
    options = {"exclusive": False, "no_ack": False, "prefetch": 0, "is_limited": False}
    if first is not None:
        holder = yard.consumer(queue, **first)
    with pytest.raises(AccessRefused, match="queue 'q' in vhost 'v' in exclusive use"):
        queue.check_consumer(**{**options, **second})  # type: ignore[arg-type]
    if first is not None:
        holder.cancel()
        queue.check_consumer(**{**options, **second})  # type: ignore[arg-type]


def test_auto_delete(yard: Yard) -> None:
    queue = yard.queue(auto_delete=True)
    a, b = yard.consumer(queue), yard.consumer(queue)
    b.cancel()
    assert yard.unused == []
    a.cancel()
    assert yard.unused == ["q"]


def test_cancelled_twice(yard: Yard) -> None:
    queue = yard.queue(auto_delete=True)
    a = yard.consumer(queue)
    a.cancel()
    a.cancel()
    assert yard.unused == ["q"]


def test_settling_after_the_queue_is_gone(yard: Yard) -> None:
    queue = yard.queue()
    a = yard.consumer(queue)
    yard.publish(queue, *"123")
    queue.is_deleted = True
    a.ack(0)
    a.reject(1)
    a.requeue(2)
    assert (yard.dead, queue.message_count, a.held) == ([], 0, 0)


# --- how long


def test_ttl_of_the_queue(yard: Yard) -> None:
    queue = yard.queue(message_ttl=1000)
    yard.publish(queue, "1")
    yard.wait(0.5)
    yard.publish(queue, "2")
    yard.wait(0.5)
    assert (waiting(queue), yard.dead) == (["2"], [("1", "expired")])
    yard.wait(0.5)
    assert (waiting(queue), yard.looks) == ([], {})


def test_the_shorter_of_two(yard: Yard) -> None:
    queue = yard.queue(message_ttl=1000)
    yard.publish(queue, "1", expiration="300")
    yard.publish(queue, "2", expiration="9000")
    yard.wait(0.3)
    assert waiting(queue) == ["2"]
    yard.wait(0.7)
    assert waiting(queue) == []


def test_only_at_the_head(yard: Yard) -> None:
    queue = yard.queue()
    yard.publish(queue, "stays")
    yard.publish(queue, "late", expiration="100")
    yard.wait(1)
    assert queue.message_count == 2
    assert yard.drain(queue) == ["stays"]
    assert yard.dead == [("late", "expired")]


def test_head_of_the_highest_priority_only(yard: Yard) -> None:
    queue = yard.queue(max_priority=5)
    yard.publish(queue, "low", priority=1, expiration="100")
    yard.publish(queue, "high", priority=2)
    yard.wait(1)
    assert queue.message_count == 2
    assert yard.drain(queue) == ["high"]


def test_no_time_at_all(yard: Yard) -> None:
    """A message may be delivered at once, but not wait, nor come back."""
    queue = yard.queue(message_ttl=0)
    yard.publish(queue, "lost")
    assert yard.dead == [("lost", "expired")]
    a = yard.consumer(queue, prefetch=1)
    yard.publish(queue, "got", "lost too")
    assert a.bodies == ["got"]
    a.requeue(0)
    assert (a.bodies, queue.message_count) == (["got"], 0)
    assert [body for body, _ in yard.dead] == ["lost", "lost too", "got"]


def test_requeued_with_the_time_it_had(yard: Yard) -> None:
    queue = yard.queue(message_ttl=1000)
    yard.publish(queue, "1")
    (entry,) = yard.get(queue)
    yard.wait(0.9)
    queue.requeue([entry], yard.now)
    assert queue.message_count == 1
    yard.wait(0.1)
    assert queue.message_count == 0


def test_queue_goes_when_it_is_not_used(yard: Yard) -> None:
    queue = yard.queue(expires=1000)
    yard.publish(queue, "1")
    yard.wait(0.9)
    queue.touch(yard.now)
    yard.wait(0.9)
    assert queue.get(yard.now)
    yard.wait(0.9)
    a = yard.consumer(queue)
    yard.wait(100)
    a.cancel()
    yard.wait(0.9)
    assert yard.unused == []
    yard.wait(0.1)
    assert yard.unused == ["q"]


def test_looked_at_when_something_is_due_and_not_before(yard: Yard) -> None:
    queue = yard.queue()
    yard.publish(queue, "1")
    assert yard.looks == {}
    assert queue.next_deadline == NEVER
    yard.drain(queue)
    yard.publish(queue, "2", expiration="5000")
    assert yard.looks == {queue: 1005.0}
    yard.publish(queue, "3", expiration="1000")
    assert yard.looks == {queue: 1005.0}
    yard.drain(queue)
    yard.wait(5)
    assert yard.looks == {}


# --- how much


@pytest.mark.parametrize(
    ("arguments", "bodies", "left", "dead"),
    [
        ({"max_length": 2}, "a b c d", "c d", "a b"),
        ({"max_length": 0}, "a b", "", "a b"),
        ({"max_length_bytes": 4}, "aa bb cc", "bb cc", "aa"),
        ({"max_length_bytes": 4}, "a b c ddddd", "", "a b c ddddd"),
        ({"max_length": 2, "max_length_bytes": 3}, "a b c ddd", "ddd", "a b c"),
        ({"max_length": 2, "overflow": "drop-head"}, "a b c", "b c", "a"),
        ({"overflow": "reject-publish"}, "a b c", "a b c", ""),
    ],
)
def test_drop_head(yard: Yard, arguments: dict[str, Any], bodies: str, left: str, dead: str) -> None:
    queue = yard.queue(**arguments)
    assert all(yard.publish(queue, *bodies.split()))
    assert waiting(queue) == left.split()
    assert yard.dead == [(body, "maxlen") for body in dead.split()]


@pytest.mark.parametrize(
    ("arguments", "bodies", "left"),
    [
        ({"max_length": 2}, "a b c d", "a b"),
        ({"max_length": 0}, "a", ""),
        ({"max_length_bytes": 4}, "aa bbb cc", "aa cc"),
    ],
)
@pytest.mark.parametrize("is_dead_lettering", [False, True])
def test_reject_publish(yard: Yard, arguments: dict[str, Any], bodies: str, left: str, is_dead_lettering: bool) -> None:
    queue = yard.queue(**arguments, overflow="reject-publish-dlx" if is_dead_lettering else "reject-publish")
    taken = yard.publish(queue, *bodies.split())
    assert [body for body, is_taken in zip(bodies.split(), taken, strict=True) if is_taken] == left.split()
    assert waiting(queue) == left.split()
    refused = [body for body in bodies.split() if body not in left.split()]
    assert yard.dead == ([(body, "maxlen") for body in refused] if is_dead_lettering else [])


def test_only_what_is_ready_counts(yard: Yard) -> None:
    queue = yard.queue(max_length=1)
    a = yard.consumer(queue, prefetch=2)
    yard.publish(queue, *"1234")
    assert (a.bodies, waiting(queue), yard.dead) == (["1", "2"], ["4"], [("3", "maxlen")])


def test_what_comes_back_may_be_too_much(yard: Yard) -> None:
    queue = yard.queue(max_length=2)
    yard.publish(queue, "1", "2")
    (one,) = yard.get(queue)
    yard.publish(queue, "3")
    queue.requeue([one], yard.now)
    assert (waiting(queue), yard.dead) == (["2", "3"], [("1", "maxlen")])


def test_the_highest_priority_is_dropped_first(yard: Yard) -> None:
    """It is the head, and RabbitMQ drops the head."""
    queue = yard.queue(max_priority=5, max_length=2)
    for body, priority in (("a", 1), ("b", 5), ("c", 0), ("d", 3)):
        yard.publish(queue, body, priority=priority)
    assert waiting(queue) == ["a", "c"]


def test_other_settings(yard: Yard) -> None:
    """As when a policy comes and goes."""
    queue = yard.queue()
    yard.publish(queue, *"123")
    queue.apply(QueueSettings(max_length=1, message_ttl=1.0), yard.now)
    assert (waiting(queue), yard.dead) == (["3"], [("1", "maxlen"), ("2", "maxlen")])
    yard.publish(queue, "4")
    yard.wait(1)
    assert waiting(queue) == []
    queue.apply(QueueSettings(), yard.now)
    yard.publish(queue, *"56")
    yard.wait(9)
    assert waiting(queue) == ["5", "6"]


def test_rejected(yard: Yard) -> None:
    queue = yard.queue()
    a = yard.consumer(queue, prefetch=2)
    yard.publish(queue, *"123")
    a.reject(0, 1)
    assert (yard.dead, a.bodies) == ([("1", "rejected"), ("2", "rejected")], ["1", "2", "3"])


@pytest.mark.parametrize(
    ("prepare", "flags", "text"),
    [
        ("consume", {"if_unused": True}, "queue 'q' in vhost 'v' in use"),
        ("publish", {"if_empty": True}, "queue 'q' in vhost 'v' not empty"),
        ("get", {"if_empty": True}, None),
        ("publish", {"if_unused": True}, None),
        ("consume", {"if_empty": True}, None),
    ],
)
def test_check_delete(yard: Yard, prepare: str, flags: dict[str, bool], text: str | None) -> None:
    queue = yard.queue()
    if prepare == "consume":
        yard.consumer(queue)
    else:
        yard.publish(queue, "1")
    if prepare == "get":
        yard.get(queue)
    options = {"if_unused": False, "if_empty": False, **flags}
    if text is None:
        queue.check_delete(**options)
    else:
        with pytest.raises(PreconditionFailed, match=text):
            queue.check_delete(**options)


# --- any program at all

steps = st.lists(
    st.tuples(
        st.sampled_from(["publish", "get", "ack", "requeue", "reject", "consume", "cancel", "wait"]), st.integers(0, 20)
    ),
    max_size=80,
)
shapes = st.sampled_from(
    [
        ("classic", {}),
        ("classic", {"max_length": 3}),
        ("classic", {"max_length_bytes": 5, "overflow": "reject-publish"}),
        ("classic", {"message_ttl": 1500}),
        ("classic", {"max_priority": 3}),
        ("classic", {"single_active_consumer": True}),
        ("quorum", {}),
        ("quorum", {"delivery_limit": 1, "max_length": 4}),
    ]
)


@settings(max_examples=example_count(300))
@given(shapes, steps)
def test_nothing_is_lost_or_doubled(shape: tuple[str, dict[str, Any]], steps: list[tuple[str, int]]) -> None:
    """Every message is at one place: it waits, is out, is dead, was acked, or was refused."""
    yard = Yard()
    type_, arguments = shape
    queue = yard.queue(type_, **arguments)
    takers: list[Taker] = []
    got: list[QueueEntry] = []
    published: list[str] = []
    done: list[str] = []
    for step, number in steps:
        out = [*got, *(entry for taker in takers for entry in taker.entries)]
        if step == "publish":
            body = str(len(published))
            published.append(body)
            expiration = "500" if number == 7 else None
            if not queue.publish(message(body, priority=number % 5, expiration=expiration), yard.now):
                done.append(body)
        elif step == "get":
            entry = queue.get(yard.now)
            if entry is not None:
                queue.hold(entry, None)
                got.append(entry)
        elif step == "consume":
            takers.append(yard.consumer(queue, prefetch=number % 4))
        elif step == "cancel" and takers:
            takers[number % len(takers)].cancel()
        elif step == "wait":
            yard.wait(number / 10)
        elif out and step in ("ack", "requeue", "reject"):
            chosen = out[number % len(out) :][: 1 + number % 3]
            for holder in (got, *(taker.entries for taker in takers)):
                holder[:] = [entry for entry in holder if entry not in chosen]
            getattr(queue, step)(chosen, yard.now)
            if step == "ack":
                done += [entry.message.body.decode() for entry in chosen]
        out = [*got, *(entry for taker in takers for entry in taker.entries)]
        places = (
            waiting(queue) + [entry.message.body.decode() for entry in out] + [body for body, _ in yard.dead] + done
        )
        assert sorted(places, key=int) == published
        assert queue.message_count == len(waiting(queue))
        assert queue.body_bytes == sum(map(len, waiting(queue)))
        assert queue.unacked == len(out)
        assert queue.message_count <= arguments.get("max_length", 1 << 30)
        for taker in takers:
            assert taker.held == taker.consumer.unacked == len(taker.entries)
            assert taker.held <= (taker.consumer.prefetch)
        if queue.message_count and not arguments.get("single_active_consumer"):
            assert not any(consumer.is_ready() for consumer in queue.consumers)
        if type_ == "classic" and "max_priority" not in arguments:
            assert waiting(queue) == sorted(waiting(queue), key=int)
