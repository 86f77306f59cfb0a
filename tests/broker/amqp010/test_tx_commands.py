"""Transactions of class tx: their commands. Section 10.3."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    DtxSelect,
    ExchangeBind,
    MessageAccept,
    MessageAcquire,
    MessageRelease,
    QueueDeclare,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import SessionDetach
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.amqp010.transaction_log import AT_ONCE
from amqproxy.broker.broker import Broker
from amqproxy.broker.message_counts import COUNTS
from tests.broker.amqp010.client import Client010, Session010


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    session.call(TxSelect())
    return session


def count(session: Session010, queue: str = "q") -> int:
    return int(session.call(QueueQuery(queue)).message_count)


def test_a_commit_and_a_rollback(session: Session010) -> None:
    session.transfer(b"first")
    assert count(session) == 0
    session.call(TxCommit())
    assert count(session) == 1
    session.transfer(b"second")
    session.call(TxRollback())
    session.call(TxCommit())
    assert count(session) == 1


def test_what_is_accepted_is_held_again_after_a_rollback(session: Session010) -> None:
    session.transfer(b"x")
    session.call(TxCommit())
    session.subscribe("q", "d")
    ((position, _),) = session.messages
    for _ in range(2):
        session.call(MessageAccept(SequenceSet.of([position])))
        session.call(TxRollback())
    session.call(MessageRelease(SequenceSet.of([position])))
    assert session.got()[-1:] == [b"x"]


def test_what_is_accepted_can_be_released_before_the_rollback(session: Session010) -> None:
    """qpid.messaging does so; Broker-J 9.2 has the messages in the queue then, too. The commit leaves them there."""
    for number in range(3):
        session.transfer(b"%d" % number)
    session.call(TxCommit())
    other = Client010(session.client.broker).open().session(1, b"other")
    session.subscribe("q", "d", messages=3)
    positions = [position for position, _ in session.messages]
    session.call(MessageAccept(SequenceSet.of(positions)))
    session.call(MessageRelease(SequenceSet.of(positions[:2]), True))
    assert count(session) == 2
    session.call(TxCommit())
    other.subscribe("q", "d")
    assert other.got() == [b"0", b"1"]
    session.client.connection.lose(session.client.now)
    assert other.got() == []


def test_what_is_released_is_back_as_a_whole_before_any_of_it_is_sent_again(session: Session010) -> None:
    for number in range(3):
        session.transfer(b"%d" % number)
    session.call(TxCommit())
    session.subscribe("q", "d", messages=5)
    positions = [position for position, _ in session.messages]
    session.call(MessageAccept(SequenceSet.of(positions[:1])))
    session.call(MessageRelease(SequenceSet.of(positions[:2])))
    assert session.got()[-2:] == [b"0", b"1"]


@pytest.mark.parametrize("is_accepted_again", [True, False])
def test_what_was_acquired_and_accepted_is_held_again_after_a_rollback(
    session: Session010, is_accepted_again: bool
) -> None:
    for body in (b"0", b"1", b"2"):
        session.transfer(body)
    session.call(TxCommit())
    session.subscribe("q", "look", acquire_mode=1)
    transfers = SequenceSet.of([position for position, _ in session.messages])
    session.call(MessageAcquire(transfers))
    session.call(MessageAccept(SequenceSet.of([*transfers][:2])))
    session.call(TxRollback())
    queue = session.client.broker.vhosts["/"].queues["q"]
    assert (queue.message_count, queue.unacked) == (0, 3)
    if is_accepted_again:
        session.call(MessageAccept(transfers))
        session.call(TxCommit())
        assert (queue.message_count, queue.unacked) == (0, 0)
    else:
        session.control(SessionDetach(session.name))
        session.take()
        assert (queue.message_count, queue.unacked) == (3, 0)


@pytest.mark.parametrize("arguments", [{"qpid.max_count": 3}, {"qpid.max_size": 10}])
def test_a_commit_that_does_not_fit_does_nothing(session: Session010, arguments: dict[str, int]) -> None:
    session.call(QueueDeclare("few", arguments=Map({**arguments, "qpid.policy_type": "reject"})))
    session.transfer(b"0123", "few")
    session.call(TxCommit())
    for key in ("q", "few", "few", "few"):
        session.transfer(b"0123", key)
    assert session.fault(TxCommit())[0] == 506
    other = session.client.session(2, b"other")
    assert (count(other), count(other, "few")) == (0, 1)
    other.call(TxSelect())
    other.transfer(b"0123", "few")
    other.call(TxCommit())
    assert count(other, "few") == 2


def test_a_queue_that_drops_its_head_refuses_none(session: Session010) -> None:
    session.call(QueueDeclare("ring", arguments=Map({"qpid.max_count": 2, "qpid.policy_type": "ring"})))
    for number in range(5):
        session.transfer(b"%d" % number, "ring")
    session.call(TxCommit())
    session.subscribe("ring", "d")
    assert session.got() == [b"3", b"4"]


@pytest.mark.parametrize("command", [TxSelect(), DtxSelect()])
def test_it_is_selected_once(session: Session010, command: TxSelect | DtxSelect) -> None:
    assert session.fault(command)[0] == 409


@pytest.mark.parametrize("command", [TxCommit(), TxRollback()])
def test_it_wants_to_be_selected(command: TxCommit | TxRollback) -> None:
    assert Client010(Broker()).open().session().fault(command)[0] == 409


def counted(session: Session010) -> list[dict[str, int]]:
    """The counts that are not zero: of the session, the virtual host, the default exchange, and the queue."""
    vhost = session.client.broker.vhosts["/"]
    channel = session.client.connection.channels[session.number]
    found = [
        channel.publisher.counts.plus(channel.deliveries.counts),
        *(each.values() for each in (vhost.counts, vhost.exchanges[""].counts, vhost.queues["q"].counts)),
    ]
    return [{name: count for name, count in zip(COUNTS, each, strict=True) if count} for each in found]


def test_publishes_are_counted_by_the_commit(session: Session010) -> None:
    session.transfer(b"x")
    session.transfer(b"nowhere", key="none")
    session.call(TxRollback())
    assert counted(session) == [{}, {}, {}, {}]
    session.transfer(b"x")
    session.transfer(b"nowhere", key="none")
    assert counted(session) == [{}, {}, {}, {}]
    session.call(TxCommit())
    assert counted(session) == [
        {"published": 2, "dropped": 1},
        {"published": 2, "dropped": 1, "routed": 1},
        {"published": 2, "routed": 1},
        {"published": 1},
    ]


def test_accepts_are_counted_by_the_commit(session: Session010) -> None:
    session.transfer(b"x")
    session.call(TxCommit())
    session.subscribe("q", "d")
    ((position, _),) = session.messages
    session.call(MessageAccept(SequenceSet.of([position])))
    session.call(TxRollback())
    assert not any("acked" in each for each in counted(session))
    session.call(MessageAccept(SequenceSet.of([position])))
    assert not any("acked" in each for each in counted(session))
    session.call(TxCommit())
    mine, vhost, _, queue = counted(session)
    assert mine["acked"] == vhost["acked"] == queue["acked"] == 1


def test_a_message_for_many_queues_is_counted_once(session: Session010) -> None:
    for number in range(AT_ONCE):
        session.declare(f"q{number}")
        session.call(ExchangeBind(f"q{number}", "amq.fanout", "", Map()))
    session.call(ExchangeBind("q", "amq.fanout", "", Map()))
    session.transfer(b"x", exchange="amq.fanout")
    session.call(TxCommit())
    mine, vhost, _, queue = counted(session)
    assert (mine["published"], vhost["published"], vhost["routed"], queue["published"]) == (1, 1, AT_ONCE + 1, 1)
