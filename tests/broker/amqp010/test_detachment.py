"""What stands for the connection of a session whose client is gone."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import SessionRequestTimeout
from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import InternalError
from amqproxy.broker.access.quotas import UserQuotas
from amqproxy.broker.amqp010.detachment import Detachment
from amqproxy.broker.broker import Broker
from amqproxy.broker.work import Job
from tests.broker.amqp010.client import Client010, Session010


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    session.control(SessionRequestTimeout(60))
    session.take()
    return session


def detached(session: Session010) -> tuple[Any, Detachment]:
    """The broker's session, and what it has in place of its connection."""
    (found,) = session.client.connection.channels.values()
    session.client.connection.lose(session.client.now)
    session.client.rest()
    assert isinstance(found.connection, Detachment)
    return found, found.connection


def is_there(session: Session010) -> bool:
    session.client.rest()
    return bool(session.client.broker.sessions)


def test_it_takes_nothing_and_sends_nothing(session: Session010) -> None:
    found, detachment = detached(session)
    assert not detachment.output.has_room
    assert not found.sender.may_send()
    detachment.send_method(1, ExecutionSync())
    detachment.is_costly()
    detachment.to_end_turn(found)
    detachment.tick(0.0)
    detachment.alarms_changed(0.0)
    detachment.cut()
    assert detachment.output.waiting == 0
    assert is_there(session)


def test_work_goes_on(session: Session010) -> None:
    found, detachment = detached(session)
    done = []

    def job() -> Job:
        yield
        done.append(True)

    detachment.do(job(), 0.0, found, 0)
    assert not done
    session.client.rest()
    assert done


@pytest.mark.parametrize(
    "end",
    [
        lambda found, detachment: detachment.detached(found, DetachCode.NORMAL, 0.0),
        lambda found, detachment: detachment.end_session(found, 0.0),
        lambda found, detachment: detachment.fail_session_soon(found, InternalError("x")),
        lambda found, detachment: detachment.end_channel(1, InternalError("x"), 0.0),
        lambda found, detachment: detachment.close("x", 0.0),
        lambda found, detachment: detachment.give_up(0.0),
    ],
)
def test_what_ends_a_session_ends_this_one(session: Session010, end: Any) -> None:
    session.transfer(b"x")
    session.subscribe("q", "d")
    end(*detached(session))
    assert not is_there(session)
    assert session.client.broker.vhosts["/"].queues["q"].message_count == 1


def test_a_line_says_what_has_ended_it(session: Session010) -> None:
    lines: list[tuple[Any, ...]] = []
    session.client.broker.events.on_log = lambda level, event, address, **fields: lines.append((event, fields["code"]))
    found, detachment = detached(session)
    detachment.fail_session_soon(found, InternalError("x"))
    assert ("detached session error", 541) in lines


def test_it_is_of_the_same_user(session: Session010) -> None:
    user = session.client.connection.user
    _, detachment = detached(session)
    assert detachment.is_of(user)


def test_what_it_takes_is_the_brokers_memory(session: Session010) -> None:
    broker = session.client.broker
    session.subscribe("q", "d")
    session.transfer(bytes(10_000))
    session.take()
    found, _ = detached(session)
    assert found.bytes_kept > 10_000
    assert broker.bytes_in_memory >= found.bytes_kept
    session.client.now += 61
    session.client.tick()
    assert not is_there(session)


def test_of_one_user_so_many_wait_for_their_client() -> None:
    broker = Broker(quotas=UserQuotas(detached=1))
    client = Client010(broker).open()
    for number in (1, 2):
        client.session(number, b"%d" % number).control(SessionRequestTimeout(100))
        assert client.names() == ["session.timeout"]
    client.connection.lose(client.now)
    client.rest()
    assert [name for _, _, name in broker.sessions] == [b"1"]
    client.now += 100
    client.tick()
    assert (broker.sessions, broker.vhosts["/"].quotas.detached.used("guest")) == ({}, 0)
