"""Subscriptions that look at messages, and what of those is acquired then."""

from __future__ import annotations

from collections import defaultdict

import pytest

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageRelease,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010 import browser
from amqproxy.broker.amqp010.browser import AT_ONCE, INTERVAL
from amqproxy.broker.broker import EVERYTHING, Broker
from tests.broker.amqp010.client import INFINITE, Client010, Session010


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    for number in range(5):
        session.transfer(b"%d" % number)
    return session


def look_again(session: Session010) -> None:
    session.client.now += INTERVAL
    session.client.tick()


def test_what_is_browsed_stays(session: Session010) -> None:
    session.subscribe("q", "b", acquire_mode=1)
    assert session.got() == [b"0", b"1", b"2", b"3", b"4"]
    assert session.call(QueueQuery("q")).message_count == 5
    session.transfer(b"5")
    look_again(session)
    assert session.got() == [b"5"]
    session.call(MessageCancel("b"))
    session.transfer(b"6")
    look_again(session)
    assert session.got() == []


def test_browsing_has_credit(session: Session010) -> None:
    session.subscribe("q", "b", acquire_mode=1, messages=2)
    assert session.got() == [b"0", b"1"]
    session.call(MessageFlow("b", 0, 1))
    assert session.got() == [b"2"]


@pytest.mark.parametrize("accept_mode", [0, 1])
def test_what_is_there_still_can_be_acquired(session: Session010, accept_mode: int) -> None:
    session.subscribe("q", "b", acquire_mode=1, accept_mode=accept_mode)
    positions = [position for position, _ in session.messages]
    session.messages = []
    other = Client010(session.client.broker).open().session(1, b"other")
    other.subscribe("q", "d", messages=1)  # takes the first
    acquired = session.call(MessageAcquire(SequenceSet.of([positions[0], positions[2]])))
    assert list(acquired.transfers) == [positions[2]]
    queue = session.client.broker.vhosts["/"].queues["q"]
    assert queue.message_count == 3
    session.call(MessageAccept(SequenceSet.of([positions[2]])))
    assert (queue.message_count, queue.unacked) == (3, 1)
    assert [each.body for each in queue] == [b"1", b"3", b"4"]


def test_what_another_has_is_not_looked_for_in_the_whole_queue(session: Session010) -> None:
    session.call(QueueDeclare("p", arguments=Map({"x-max-priority": 2})))
    for priority in (0, 0, 2, 1, 1, 1):
        session.transfer(b"%d" % priority, "p", delivery=DeliveryProperties(routing_key="p", priority=priority))
    queue = session.client.broker.vhosts["/"].queues["p"]
    session.subscribe("p", "b", acquire_mode=1)
    positions = [position for position, _ in session.messages]
    assert session.got() == [b"2", b"1", b"1", b"1", b"0", b"0"]
    entry = queue.get(0.0)
    assert entry is not None
    queue.hold(entry, None)
    left = queue.left
    acquired = session.call(MessageAcquire(SequenceSet.of(positions[:2])))
    assert list(acquired.transfers) == [positions[1]]
    assert queue.left - left == 2  # the one, and the one behind it
    assert [each.body for each in queue] == [b"1", b"1", b"0", b"0"]


@pytest.mark.parametrize("is_few", [True, False])
def test_what_was_acquired_is_looked_for_in_steps(session: Session010, is_few: bool) -> None:
    session.subscribe("q", "b", acquire_mode=1)
    positions = [position for position, _ in session.messages]
    session.call(MessageAcquire(SequenceSet.of(positions)))
    work = session.client.broker.work
    work.quantum.limit(16)
    far = [(each, each if is_few else each + 1000) for each in range(10_000, 20_000, 2000)]
    session.send(MessageRelease(SequenceSet([*far * 30, (positions[0], positions[0])])))
    turns = 0
    while work:
        work.go_on(session.client.now)
        turns += 1
    assert turns >= 5
    assert session.call(QueueQuery("q")).message_count == 1


def test_what_was_acquired_can_be_released_and_goes_back_with_the_session(session: Session010) -> None:
    session.subscribe("q", "b", acquire_mode=1)
    positions = [position for position, _ in session.messages]
    session.call(MessageAcquire(SequenceSet.of(positions[:2])))
    session.call(MessageRelease(SequenceSet.of(positions[:1])))
    queue = session.client.broker.vhosts["/"].queues["q"]
    assert queue.message_count == 4
    session.client.connection.lose(session.client.now)
    session.client.rest()
    assert [each.body for each in queue] == [b"0", b"1", b"2", b"3", b"4"]


def test_the_deletion_of_the_queue_ends_the_browser_only(session: Session010) -> None:
    """Broker-J 9.2 says nothing, and takes a message.cancel."""
    session.subscribe("q", "b", acquire_mode=1)
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(QueueDelete("q"))
    look_again(session)
    look_again(session)
    assert session.take().exception is None
    session.call(MessageCancel("b"))
    assert session.exception is None


def test_a_look_is_bounded(session: Session010) -> None:
    queue = session.client.broker.vhosts["/"].queues["q"]
    seen = defaultdict[int, CommandIds](CommandIds)
    assert len(queue.peek(seen, 3, 1 << 20)) == 3
    assert len(queue.peek(seen, 10, 1)) == 1
    assert len(queue.peek(seen, 10, 1 << 20, 2)) == 2
    entry = queue.get(0.0)
    assert entry is not None
    queue.hold(entry, None)
    queue.requeue([entry], 0.0)
    assert [peeked.place for peeked in queue.peek(seen, 2, 1 << 20)] == [(0, 1), (0, 2)]
    assert queue.place_of(entry) == (0, 1)


def test_a_quorum_queue_is_browsed_and_nothing_is_acquired(session: Session010) -> None:
    session.call(QueueDeclare("quorum", durable=True, arguments=Map({"x-queue-type": "quorum"})))
    for number in range(4):
        session.transfer(b"%d" % number, "quorum")
    session.subscribe("quorum", "d", messages=2)
    first, second = (position for position, _ in session.messages)
    assert session.got() == [b"0", b"1"]
    session.call(MessageCancel("d"))
    session.call(MessageRelease(SequenceSet.of([first, second]), True))
    session.subscribe("quorum", "b", acquire_mode=1)
    positions = [position for position, _ in session.messages]
    found = session.got()
    assert sorted(found) == [b"0", b"1", b"2", b"3"]
    assert list(session.call(MessageAcquire(SequenceSet.of(positions))).transfers) == []
    session.call(MessageCancel("b"))
    session.subscribe("quorum", "all")
    assert session.got() == found


def test_a_stream_is_read_from_its_beginning_or_its_offset(session: Session010) -> None:
    session.call(QueueDeclare("stream", durable=True, arguments=Map({"x-queue-type": "stream"})))
    for number in range(4):
        session.transfer(b"%d" % number, "stream")
    session.subscribe("stream", "b", acquire_mode=1, accept_mode=1, messages=3)
    assert session.got() == [b"0", b"1", b"2"]
    session.subscribe("stream", "c", acquire_mode=1, arguments=Map({"x-stream-offset": 3}))
    assert session.got() == [b"3"]
    session.transfer(b"4", "stream")
    assert session.got() == [b"4"]
    session.send(MessageFlow("b", 0, 5))
    assert session.got() == [b"3", b"4"]
    queue = session.client.broker.vhosts["/"].queues["stream"]
    assert (queue.message_count, queue.unacked) == (5, 0)


@pytest.mark.parametrize("is_selecting", [False, True])
def test_a_long_queue_is_browsed_to_its_end_in_parts(session: Session010, is_selecting: bool) -> None:
    wanted = {"x-filter-jms-selector": "n IS NULL"} if is_selecting else {}
    count = 3 * AT_ONCE + 7
    for number in range(5, count):
        session.transfer(b"%d" % number)
    work = session.client.broker.work
    work.quantum.limit(16)
    session.call(MessageSubscribe("q", "b", 1, 1, arguments=Map(wanted)))
    session.send(MessageFlow("b", 1, INFINITE))
    session.send(MessageFlow("b", 0, INFINITE))
    turns = 0
    while work:
        work.go_on(session.client.now)
        turns += 1
    assert session.got() == [b"%d" % number for number in range(count)]
    assert turns > count / 16


def test_browsers_of_one_user_have_one_place_in_the_line(session: Session010) -> None:
    for number in range(200):
        session.transfer(b"%d" % number)
    work = session.client.broker.work
    work.quantum.limit(4)
    for number in range(20):
        name = f"b{number}"
        session.call(MessageSubscribe("q", name, 1, 1))
        for unit in (0, 1):
            session.send(MessageFlow(name, unit, INFINITE))
    assert len(work) <= 2  # and the connection


def test_those_of_one_user_do_not_slow_anothers(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "LONG", 0)  # looked at only at intervals
    monkeypatch.setattr(browser, "PAUSE", 1.0)
    broker = session.client.broker
    other = User.with_password("other", "secret", ())
    other.permit("/", EVERYTHING)
    broker.add_user(other)
    others = Client010(broker).open(user="other", password="secret").session(1, b"others")
    for number in range(10):
        others.subscribe("q", f"b{number}", acquire_mode=1)
    session.client.now = others.client.now = 1011.0
    session.client.tick()  # now all of them know of each other
    session.subscribe("q", "b", acquire_mode=1)
    session.transfer(b"5")
    others.got()
    for now, mine, theirs in ((1012.5, 6, 0), (1021.5, 0, 10)):
        session.client.now = others.client.now = now
        session.client.tick()
        assert (len(session.got()), len(others.got())) == (mine, theirs)


def test_what_comes_back_is_shown_once(session: Session010) -> None:
    queue = session.client.broker.vhosts["/"].queues["q"]
    entry = queue.get(0.0)
    assert entry is not None
    queue.hold(entry, None)
    session.subscribe("q", "b", acquire_mode=1)
    assert session.got() == [b"1", b"2", b"3", b"4"]
    for _ in range(2):
        queue.requeue([entry], 0.0)
        look_again(session)
        entry = queue.get(0.0)
        assert entry is not None
        queue.hold(entry, None)
        look_again(session)
    assert session.got() == [b"0"]


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_of_what_is_gone_nothing_is_known_any_more(
    session: Session010, monkeypatch: pytest.MonkeyPatch, queue_type: str
) -> None:
    monkeypatch.setattr(browser, "MOST_RANGES", 8)
    session.call(QueueDeclare("p", durable=True, arguments=Map({"x-queue-type": queue_type})))
    session.transfer(b"back", "p")
    queue = session.client.broker.vhosts["/"].queues["p"]
    entry = queue.get(0.0)
    assert entry is not None
    queue.hold(entry, None)
    session.subscribe("p", "b", acquire_mode=1)
    shown: list[bytes] = []
    for number in range(50):
        session.subscribe("p", "d", messages=1)
        session.transfer(b"taken", "p")
        session.transfer(b"%d" % number, "p")
        if number == 20:
            queue.requeue([entry], 0.0)
        look_again(session)
        session.send(MessageFlow("d", 0, 1))
        session.call(MessageCancel("d"))
        shown += [each.body for _, each in session.take().messages if each.method.destination == "b"]
        session.messages = []
    others = [each for each in shown if each != b"taken"]
    assert sorted(others) == sorted([b"back", *(b"%d" % number for number in range(50))])
    looking = session.client.connection.channels[1].deliveries.subscriptions["b"].browser
    assert looking is not None
    assert sum(each.ranges for each in looking._seen.values()) < 24
