"""A session whose connection is cut, and that its client goes on with on another one."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import DtxSelect, DtxStart, ExecutionSync, MessageAccept, QueueQuery
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionCommandPoint,
    SessionExpected,
    SessionFlush,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.amqp010.replay import MOST_COMMANDS, ReplayBuffer, SentCommand
from amqproxy.broker.amqp010.session import MAX_TIMEOUT
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010


def resumable(broker: Broker, timeout: int | None = 60) -> Session010:
    session = Client010(broker).open().session()
    session.control(SessionRequestTimeout(timeout))
    session.take()
    assert session.others == [SessionTimeout(MAX_TIMEOUT if timeout is None else min(timeout, MAX_TIMEOUT))]
    session.others = []
    return session


def cut(session: Session010) -> None:
    session.client.connection.lose(session.client.now)
    session.client.rest()


def come_back(before: Session010, number: int = 3) -> Session010:
    """The same session on another connection, and another channel."""
    client = Client010(before.client.broker).open()
    client.now = before.client.now
    session = Session010(client, number, before.name)
    session.sent, session.came = before.sent, before.came
    client.send(number, SessionAttach(before.name))
    session.control(SessionCommandPoint(before.sent, 0))
    return session


def queue(session: Session010) -> Any:
    return session.client.broker.vhosts["/"].queues["q"]


def test_what_was_not_received_is_sent_again() -> None:
    session = resumable(Broker())
    session.declare("q")
    session.subscribe("q", "d", messages=3)
    session.transfer(b"one")
    session.transfer(b"two")
    assert session.got() == [b"one", b"two"]
    received = session.came - 1  # as if the second had not arrived
    cut(session)
    assert queue(session).unacked == 2
    again = come_back(session)
    again.take()
    assert SessionFlush(expected=True) in again.others
    again.control(SessionExpected(SequenceSet([(received, received)])))
    again.take()
    assert [(position, each.body) for position, each in again.messages] == [(received, b"two")]
    again.messages = []
    again.call(MessageAccept(SequenceSet([(received - 1, received)])))
    assert queue(session).unacked == 0
    again.transfer(b"three")
    assert again.got() == [b"three"]


def test_what_is_sent_again_to_the_broker_is_done_once() -> None:
    session = resumable(Broker())
    session.declare("q")
    sent = session.sent
    session.transfer(b"once")
    session.take()
    cut(session)
    again = come_back(session)
    again.control(SessionFlush(expected=True))
    again.take()
    assert SessionExpected(SequenceSet([(sent, sent)])) not in again.others
    again.sent = sent
    again.control(SessionCommandPoint(sent, 0))
    again.transfer(b"once")
    again.transfer(b"twice")
    again.take()
    assert {sent, sent + 1} <= again.completed
    assert again.call(QueueQuery("q")).message_count == 2


def test_nothing_is_delivered_to_a_session_whose_client_is_gone() -> None:
    session = resumable(Broker())
    session.declare("q")
    session.subscribe("q", "d")
    cut(session)
    other = Client010(session.client.broker).open().session(1, b"other")
    other.transfer(b"waits")
    other.take()
    assert queue(session).message_count == 1
    again = come_back(session)
    again.control(SessionExpected(SequenceSet([(again.came, again.came)])))
    assert again.got() == [b"waits"]


def test_a_session_ends_where_its_client_does_not_come_back_in_time() -> None:
    session = resumable(Broker(), 60)
    session.declare("q", exclusive=True, auto_delete=True)
    cut(session)
    broker = session.client.broker
    session.client.now += 59
    session.client.tick()
    assert "q" in broker.vhosts["/"].queues
    session.client.now += 2
    session.client.tick()
    assert "q" not in broker.vhosts["/"].queues
    assert broker.sessions == {}


def test_without_a_timeout_a_session_ends_with_its_connection() -> None:
    session = Client010(Broker()).open().session()
    session.declare("q", exclusive=True, auto_delete=True)
    cut(session)
    assert "q" not in session.client.broker.vhosts["/"].queues


@pytest.mark.parametrize("how", ["vhost", "user"])
def test_a_session_that_waits_ends_with_its_virtual_host_and_its_user(how: str) -> None:
    session = resumable(Broker(), None)
    broker = session.client.broker
    session.call(DtxSelect())
    session.call(DtxStart(Xid(1, b"g", b"b")))
    cut(session)
    assert len(broker.sessions) == 1
    if how == "vhost":
        broker.delete_vhost("/", session.client.now)
    else:
        broker.delete_user("guest", session.client.now)
    session.client.rest()
    assert broker.sessions == {}


def test_a_client_that_has_forgotten_the_session_begins_anew() -> None:
    session = resumable(Broker())
    session.call(ExecutionSync())
    session.declare("q")
    session.call(QueueQuery("q"))  # so that something was sent
    cut(session)
    again = come_back(session)
    again.control(SessionExpected(SequenceSet()))
    assert again.client.names()[-1] == "session.detached"
    assert again.client.broker.sessions == {}


def test_the_buffer_is_bounded() -> None:
    buffer = ReplayBuffer()
    for position in range(MOST_COMMANDS):
        assert not buffer.is_full
        buffer.keep(position, SentCommand(b"x"))
    assert buffer.is_full
    buffer.confirmed([range(1), range(10, 1 << 40)])
    assert len(buffer) == 9
    assert [position for position, _ in buffer.expected([range(3, 4), range(8, 9)])] == [3, 8, 9]
