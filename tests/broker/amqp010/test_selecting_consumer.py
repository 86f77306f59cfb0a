"""Subscriptions with a selector: of a queue that is shared, of one's own, and of one that is browsed."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageRelease,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.properties import MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010 import browser, selecting_consumer
from amqproxy.broker.amqp010.browser import INTERVAL, LONG
from amqproxy.broker.broker import EVERYTHING, Broker
from amqproxy.broker.queues import queue
from amqproxy.broker.queues.queue import Place, Queue
from amqproxy.broker.work import Quantum
from tests.broker.amqp010.client import Client010, Session010

RED = {"arguments": Map({"x-filter-jms-selector": "color = 'red'"})}


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    return session


def send(session: Session010, *colors: str, key: str = "q", exchange: str = "") -> None:
    """A message of each colour, whose body is the colour and a number."""
    for number, color in enumerate(colors):
        message = MessageProperties(application_headers=Map({"color": color}))
        session.transfer(b"%s %d" % (color.encode(), number), key, exchange=exchange, message=message)


def look(session: Session010, after: float = 0.0) -> None:
    session.client.now += after
    session.client.tick()


def count(session: Session010, queue: str = "q") -> int:
    return int(session.call(QueueQuery(queue)).message_count)


def positions(session: Session010) -> list[int]:
    return [position for position, _ in session.messages]


def test_it_takes_what_it_wants_and_leaves_the_rest(session: Session010) -> None:
    send(session, "blue", "red", "blue", "red")
    session.subscribe("q", "d", **RED)
    assert session.call(QueueQuery("q")).subscriber_count == 1
    ids = positions(session.take())
    assert session.got() == [b"red 1", b"red 3"]
    assert count(session) == 2
    session.call(MessageAccept(SequenceSet.of(ids)))
    assert session.client.broker.vhosts["/"].queues["q"].unacked == 0
    session.call(MessageCancel("d"))
    session.subscribe("q", "all")
    assert [assembly.delivery_properties.redelivered for _, assembly in session.messages] == [False, False]
    assert session.got() == [b"blue 0", b"blue 2"]


@pytest.mark.parametrize("accept_mode", [0, 1])
def test_what_comes_later_is_taken_at_once(session: Session010, accept_mode: int) -> None:
    send(session, "blue")
    session.subscribe("q", "d", accept_mode=accept_mode, **RED)
    send(session, "red", "blue", "red")
    look(session)
    assert session.got() == [b"red 0", b"red 2"]
    assert count(session) == 2
    assert session.client.broker.vhosts["/"].queues["q"].unacked == (2 if accept_mode == 0 else 0)


def test_one_beside_that_takes_all_gets_the_rest(session: Session010) -> None:
    session.subscribe("q", "red", **RED)
    other = Client010(session.client.broker).open().session(1, b"other")
    send(session, "blue")
    look(session)
    other.subscribe("q", "all", messages=1)
    assert other.got() == [b"blue 0"]
    send(session, "red")
    look(session)
    assert session.got() == [b"red 0"]


def test_it_has_credit(session: Session010) -> None:
    session.subscribe("q", "d", messages=1, **RED)
    send(session, "red", "red", "blue")
    look(session)
    assert session.got() == [b"red 0"]
    session.send(MessageFlow("d", 0, 1))
    assert session.got() == [b"red 1"]
    assert count(session) == 1


def test_what_is_too_large_for_its_credit_stays(session: Session010) -> None:
    session.subscribe("q", "d", size=10, accept_mode=1, **RED)
    send(session, "red")
    look(session)
    assert session.got() == []
    assert count(session) == 1
    session.send(MessageFlow("d", 1, 1000))
    look(session, INTERVAL)
    assert session.got() == [b"red 0"]
    assert session.client.broker.vhosts["/"].queues["q"].unacked == 0


def test_what_is_released_or_given_back_by_another_comes_to_it(session: Session010) -> None:
    other = Client010(session.client.broker).open().session(1, b"other")
    send(session, "red")
    other.subscribe("q", "all", messages=1)
    session.subscribe("q", "d", **RED)
    assert session.got() == []
    other.call(MessageRelease(SequenceSet.of(positions(other))))
    look(session, INTERVAL)
    ids = positions(session.take())
    assert session.got() == [b"red 0"]
    session.call(MessageRelease(SequenceSet.of(ids), True))
    look(session, INTERVAL)
    assert session.got() == [b"red 0"]


def test_its_messages_go_back_with_it(session: Session010) -> None:
    other = Client010(session.client.broker).open().session(1, b"other")
    other.subscribe("q", "d", **RED)
    send(session, "blue", "red")
    other.client.now = session.client.now
    look(other)
    assert other.got() == [b"red 1"]
    other.client.connection.lose(session.client.now)
    session.client.rest()
    assert count(session) == 2
    assert session.client.broker.vhosts["/"].queues["q"].lookers == {}
    assert session.call(QueueQuery("q")).subscriber_count == 0


def test_an_exclusive_one_keeps_others_away(session: Session010) -> None:
    session.subscribe("q", "d", exclusive=True, **RED)
    other = Client010(session.client.broker).open().session(1, b"other")
    assert other.fault(MessageSubscribe("q", "d", 0, 0, arguments=RED["arguments"]))[0] == 405


def test_the_deletion_of_the_queue_ends_the_subscription_only(session: Session010) -> None:
    other = Client010(session.client.broker).open().session(1, b"other")
    other.subscribe("q", "d", **RED)
    session.call(QueueDelete("q"))
    look(other)
    assert other.take().exception is None
    other.call(MessageCancel("d"))
    assert other.exception is None


def test_a_long_queue_is_looked_at_in_intervals(session: Session010) -> None:
    send(session, *["blue"] * (LONG + 1))
    session.subscribe("q", "d", **RED)
    send(session, "red")
    look(session)
    assert session.got() == []
    look(session, INTERVAL)
    assert session.got() == [b"red 0"]
    assert count(session) == LONG + 1


@pytest.mark.parametrize("accept_mode", [0, 1])
@pytest.mark.parametrize("auto_delete", [True, False])
def test_of_its_own_copies_the_rest_is_dropped(session: Session010, accept_mode: int, auto_delete: bool) -> None:
    session.call(QueueDeclare("own", exclusive=True, auto_delete=auto_delete))
    session.bind("own", "amq.topic", "topic")
    send(session, "blue", "red", key="topic", exchange="amq.topic")
    session.subscribe("own", "d", accept_mode=accept_mode, **RED)
    send(session, "blue", "red", "blue", key="topic", exchange="amq.topic")
    ids = positions(session.take())
    assert session.got() == [b"red 1", b"red 1"]
    queue = session.client.broker.vhosts["/"].queues["own"]
    assert (queue.message_count, queue.unacked) == (0, 2 if accept_mode == 0 else 0)
    session.call(MessageAccept(SequenceSet.of(ids)))
    assert queue.unacked == 0


def test_of_a_queue_of_its_own_that_clients_publish_to_the_rest_stays(session: Session010) -> None:
    session.call(QueueDeclare("own", exclusive=True, auto_delete=True))
    session.bind("own", "amq.direct", "own")
    session.subscribe("own", "red", **RED)
    send(session, "blue", "red", key="own", exchange="amq.direct")
    look(session)
    assert session.got() == [b"red 1"]
    session.subscribe("own", "blue", arguments=Map({"x-filter-jms-selector": "color = 'blue'"}))
    assert session.got() == [b"blue 0"]
    send(session, "red", "blue", key="own", exchange="amq.direct")
    look(session)
    assert sorted(session.got()) == [b"blue 1", b"red 0"]


def test_a_browser_shows_what_is_chosen(session: Session010) -> None:
    send(session, "blue", "red")
    session.subscribe("q", "d", acquire_mode=1, arguments=Map({"x-apache-selector": "color <> 'blue'"}))
    assert session.got() == [b"red 1"]
    send(session, "blue", "green")
    look(session)
    assert session.got() == [b"green 1"]
    assert count(session) == 4


@pytest.mark.parametrize("acquire_mode", [0, 1])
def test_a_selector_goes_over_a_queue_in_many_turns(session: Session010, acquire_mode: int) -> None:
    send(session, *["blue"] * 200, "red", *["blue"] * 200, "red")
    work = session.client.broker.work
    work.quantum.limit(64)
    long = Map({"x-filter-jms-selector": " OR ".join(["color = 'green'"] * 100) + " OR color = 'red'"})
    session.send(MessageSubscribe("q", "d", 0, acquire_mode, arguments=long))
    session.send(MessageFlow("d", 0, 10))
    session.send(MessageFlow("d", 1, 1_000_000))
    turns = 0
    while work:
        work.go_on(session.client.now)
        turns += 1
    assert turns >= 400  # a message takes longer than a turn
    assert session.got() == [b"red 200", b"red 401"]


def test_what_is_far_apart_is_taken_out_at_once(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def acquiring(queue: Queue, places: set[Place], quantum: Quantum, now: float) -> Any:
        taken.append(len(places))
        return browser.acquiring(queue, places, quantum, now)

    monkeypatch.setattr(selecting_consumer, "acquiring", acquiring)
    for _ in range(3):
        send(session, *["blue"] * 100, "red")
    session.client.broker.work.quantum.limit(64)
    session.subscribe("q", "d", messages=2, **RED)
    assert session.got() == [b"red 100", b"red 100"]
    session.send(MessageFlow("d", 0, 2))
    assert session.got() == [b"red 100"]
    assert taken == [2, 1]


def test_a_flush_waits_for_the_whole_queue_to_be_gone_over(session: Session010) -> None:
    send(session, *["blue"] * 300, "red")
    session.client.broker.work.quantum.limit(64)
    session.subscribe("q", "d", messages=0, **RED)
    session.send(MessageFlow("d", 0, 10))
    session.call(MessageFlush("d"))
    assert session.got() == [b"red 300"]


def test_publishing_notifies_few_of_those_that_look(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_LOOKERS", 1)
    session.subscribe("q", "a", acquire_mode=1)
    session.subscribe("q", "b", acquire_mode=1)
    send(session, "red")
    look(session)
    assert session.got() == []
    look(session, INTERVAL)
    assert session.got() == [b"red 0", b"red 0"]


def test_as_many_of_one_user_as_of_another(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_LOOKERS", 1)
    broker = session.client.broker
    other = User.with_password("other", "secret", ())
    other.permit("/", EVERYTHING)
    broker.add_user(other)
    others = Client010(broker).open(user="other", password="secret").session(1, b"others")
    others.subscribe("q", "a", acquire_mode=1)
    others.subscribe("q", "b", acquire_mode=1)
    session.subscribe("q", "c", acquire_mode=1)
    send(session, "red")
    look(session)
    assert (session.got(), others.got()) == ([b"red 0"], [])


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_other_types_of_queues_have_no_selectors(session: Session010, kind: str) -> None:
    session.call(QueueDeclare("other", durable=True, arguments=Map({"x-queue-type": kind})))
    assert session.fault(MessageSubscribe("other", "d", 0, 0, arguments=RED["arguments"]))[0] == 540


def test_a_single_active_consumer_has_no_selector_beside_it(session: Session010) -> None:
    session.call(QueueDeclare("single", arguments=Map({"x-single-active-consumer": True})))
    session.subscribe("single", "look", acquire_mode=1, **RED)
    assert session.fault(MessageSubscribe("single", "d", 0, 0, arguments=RED["arguments"]))[0] == 540


def test_of_what_others_have_taken_nothing_is_known_any_more(
    session: Session010, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "MOST_RANGES", 8)
    send(session, "green")  # it waits in front of all that comes
    session.subscribe("q", "red", **RED)
    session.subscribe("q", "blue", arguments=Map({"x-filter-jms-selector": "color = 'blue'"}))
    for _ in range(50):
        send(session, "red", "blue")
        look(session, INTERVAL)
    assert session.got() == [b"red 0", b"blue 1"] * 50
    for subscription in session.client.connection.channels[1].deliveries.subscriptions.values():
        assert subscription.browser is not None
        assert sum(each.ranges for each in subscription.browser._seen.values()) < 24
