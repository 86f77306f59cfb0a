"""What a session is sent, and what it says of that."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.amqp010 import session_deliveries
from amqproxy.broker.broker import Broker
from amqproxy.broker.message import Message
from tests.broker.amqp010.client import INFINITE, Client010, Session010


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    return session


def fill(session: Session010, count: int) -> None:
    for number in range(count):
        session.transfer(b"%d" % number)
    session.take()


def got(session: Session010) -> list[tuple[int, bytes, bool]]:
    """What came: positions, bodies, and whether they are redelivered."""
    session.take()
    found = []
    for position, assembly in session.messages:
        found.append((position, assembly.body, bool(assembly.delivery_properties.redelivered)))
    session.messages = []
    return found


def count(session: Session010) -> int:
    return int(session.call(QueueQuery("q")).message_count)


def test_each_outcome(session: Session010) -> None:
    fill(session, 4)
    session.subscribe("q", "d", messages=4)
    first, second, third, fourth = [position for position, _, _ in got(session)]
    session.call(MessageCancel("d"))
    session.call(MessageAccept(SequenceSet.of([first])))
    session.call(MessageReject(SequenceSet.of([second])))
    session.call(MessageRelease(SequenceSet.of([third]), set_redelivered=True))
    session.call(MessageRelease(SequenceSet.of([fourth])))
    session.subscribe("q", "d")
    assert [(body, is_redelivered) for _, body, is_redelivered in got(session)] == [(b"2", True), (b"3", False)]


@pytest.mark.parametrize("command", [MessageAccept, MessageReject, MessageRelease])
def test_what_is_not_held_is_ignored(session: Session010, command: type[MessageAccept]) -> None:
    fill(session, 2)
    session.subscribe("q", "d", messages=1)
    ((position, _, _),) = got(session)
    session.call(MessageCancel("d"))
    session.call(command(SequenceSet.of([position + 1, position + 2])))
    session.call(command(SequenceSet([(0, INFINITE)])))
    session.call(command(SequenceSet.of([position])))
    assert count(session) in (1, 2)


def test_very_many_are_settled_in_steps(session: Session010) -> None:
    session.client.broker.work.quantum.limit(16)
    many = 3 * session_deliveries.AT_ONCE
    fill(session, many)
    session.subscribe("q", "d")
    positions = [position for position, _, _ in got(session)]
    assert len(positions) == many
    session.call(MessageCancel("d"))
    session.call(MessageRelease(SequenceSet.of(positions[1:])))
    assert count(session) == many - 1
    session.call(MessageAccept(SequenceSet.of(positions)))
    session.subscribe("q", "d")
    assert [body for _, body, _ in got(session)] == [b"%d" % number for number in range(1, many)]


def test_a_completion_costs_what_many_subscriptions_take(session: Session010) -> None:
    fill(session, 1)
    for number in range(200):
        session.subscribe("q", f"d{number}", messages=1)
    ((position, _, _),) = got(session)
    quantum = session.client.broker.work.quantum
    quantum.limit(1000)
    session.complete(position)
    assert 1000 - quantum.left >= 50


def test_a_window_gives_back_what_is_completed(session: Session010) -> None:
    fill(session, 5)
    session.subscribe("q", "d", messages=2)
    first, second = [position for position, _, _ in got(session)]
    session.complete(second)
    ((third, body, _),) = got(session)
    assert body == b"2"
    session.complete(second, third, first)
    assert [body for _, body, _ in got(session)] == [b"3", b"4"]


@pytest.mark.parametrize("beside", [(2**32 - 1, 2**32 - 1), (2**32 - 3, 1), (90, 95), (4, 4)])
def test_ids_that_are_not_held_are_accepted_as_if_they_were(session: Session010, beside: tuple[int, int]) -> None:
    fill(session, 5)
    session.subscribe("q", "d")
    positions = [position for position, _, _ in got(session)]
    assert positions == [0, 1, 2, 3, 4]
    queue = session.client.broker.vhosts["/"].queues["q"]
    session.call(MessageAccept(SequenceSet([beside, (2, 3)])))
    session.call(MessageAccept(SequenceSet([(2, 3)])))
    accepted = {2, 3} | set(SequenceSet([beside])) & set(positions)
    assert queue.unacked == len(set(positions) - accepted)
    session.call(MessageAccept(SequenceSet([(0, 200)])))
    assert queue.unacked == 0


def test_there_is_a_bound_to_what_is_not_completed(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_deliveries, "MAX_IN_FLIGHT", 3)
    fill(session, 5)
    session.subscribe("q", "d", messages=INFINITE - 1)
    found = got(session)
    assert len(found) == 3
    session.complete(found[0][0])
    assert len(got(session)) == 1


def test_what_is_larger_than_the_credit_stays(session: Session010) -> None:
    session.transfer(bytes(1000))
    session.subscribe("q", "d", size=500)
    assert got(session) == []
    assert count(session) == 1
    session.call(MessageFlow("d", CreditUnit.BYTE, 1000))
    ((_, _, is_redelivered),) = got(session)
    assert not is_redelivered


def test_what_was_browsed_is_acquired(session: Session010) -> None:
    fill(session, 3)
    session.subscribe("q", "d", acquire_mode=1)
    positions = [position for position, _, _ in got(session)]
    acquired = session.call(MessageAcquire(SequenceSet.of([positions[1]])))
    assert list(acquired.transfers) == [positions[1]]
    assert count(session) == 2
    assert list(session.call(MessageAcquire(SequenceSet.of([positions[1]]))).transfers) == []
    session.call(MessageAccept(SequenceSet.of([positions[1]])))
    session.call(MessageCancel("d"))
    assert count(session) == 2


def test_what_is_held_goes_back_when_the_session_ends(session: Session010) -> None:
    fill(session, 3)
    session.subscribe("q", "d", messages=2)
    session.client.connection.lose(session.client.now)
    session.client.rest()
    other = Client010(session.client.broker).open().session()
    other.subscribe("q", "d")
    assert [(body, mark) for _, body, mark in got(other)] == [(b"0", True), (b"1", True), (b"2", False)]


def test_a_queue_that_is_deleted_leaves_the_session(session: Session010) -> None:
    session.subscribe("q", "d")
    other = session.client.session(2, b"other")
    other.call(QueueDelete("q"))
    session.client.tick()
    assert session.take().exception is None


def test_what_cannot_be_written_costs_its_receiver_only(session: Session010) -> None:
    queue = session.client.broker.vhosts["/"].queues["q"]
    queue.publish(Message("", "q", b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\x00\xff", b""), 0.0)
    other = session.client.session(2, b"other")
    other.subscribe("q", "d")
    other.client.tick()
    other.take()
    assert other.exception is not None
    assert other.exception.error_code == 541
    assert queue.message_count == 1
