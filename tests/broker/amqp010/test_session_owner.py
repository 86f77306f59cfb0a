"""Owners of named sessions: the clients that may attach to them again, and with which rights."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.commands import QueueDeclare, QueueQuery
from amqproxy.amqp010.controls import SessionAttach, SessionCommandPoint, SessionExpected, SessionRequestTimeout
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.client_connection import ClientConnection
from amqproxy.configuration.token_config import BrokerTokens
from tests.broker.amqp010.client import Client010, Session010

ALL = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"
READS = "rabbitmq.read:*/*"

TOKENS: dict[str, dict[str, Any]] = {
    "eyJ.guest.x": {"sub": "guest", "scope": READS},
    "eyJ.all.x": {"sub": "tina", "scope": ALL},
    "eyJ.reads.x": {"sub": "tina", "scope": READS},
    "eyJ.nameless.x": {"scope": ALL},
}


def taking_tokens() -> Broker:
    broker = Broker()

    def user_of(token: str) -> TokenUser:
        settings = BrokerTokens(keys="keys.json")
        return TokenUser(TOKENS[token], settings, expires_at=2000.0, now=1000.0, profile=broker.profile)

    broker.user_of_token = user_of
    return broker


def attached(broker: Broker, password: str, number: int = 1) -> Session010:
    """A session named s of a client that logs in; it has asked to be kept."""
    client = Client010(broker).open(password=password)
    session = Session010(client, number, b"s")
    client.send(number, SessionAttach(b"s"))
    session.control(SessionCommandPoint(0, 0))
    session.control(SessionRequestTimeout(600))
    return session


def cut(session: Session010) -> None:
    session.client.connection.lose(session.client.now)
    session.client.rest()


def resumed(before: Session010, password: str) -> Session010:
    """The session on another connection."""
    cut(before)
    session = attached(before.client.broker, password)
    session.control(SessionCommandPoint(before.sent, 0))
    session.sent, session.came = before.sent, before.came
    session.control(SessionExpected(SequenceSet([(before.came, before.came)])))
    return session


def users(broker: Broker) -> list[tuple[bytes, bool]]:
    """Name of each session, and whether the broker has its user."""
    return [(name, session.user.is_internal) for (_, _, name), session in broker.sessions.items()]


def test_a_token_does_not_take_over_the_session_of_a_user_of_its_name() -> None:
    broker = taking_tokens()
    session = attached(broker, "guest")
    session.declare("q")
    other = resumed(session, "eyJ.guest.x")
    assert users(broker) == [(b"s", True), (b"s", False)]
    assert other.client.connection.channels[1].user.is_internal is False
    again = attached(broker, "guest")
    assert again.client.connection.channels[1].user.is_internal is True
    cut(other)
    broker.delete_user("guest", 1000.0)
    other.client.rest()
    assert users(broker) == [(b"s", False)]


def test_a_resumed_session_has_the_rights_of_the_later_token() -> None:
    broker = taking_tokens()
    session = attached(broker, "eyJ.all.x")
    session.declare("q")
    for _ in range(4):
        session.transfer(b"x")
    assert session.call(QueueQuery("q")).message_count == 4
    again = resumed(session, "eyJ.reads.x")
    again.transfer(b"x")
    again.take()
    assert again.exception is not None
    assert again.exception.error_code == 403
    assert broker.vhosts["/"].queues["q"].message_count == 4
    assert users(broker) == []


def test_a_resumed_session_declares_nothing_that_the_later_token_may_not() -> None:
    broker = taking_tokens()
    again = resumed(attached(broker, "eyJ.all.x"), "eyJ.reads.x")
    again.send(QueueDeclare("q"))
    again.take()
    assert again.exception is not None
    assert "q" not in broker.vhosts["/"].queues


def test_a_session_of_a_token_without_a_name_does_not_wait_for_its_client() -> None:
    broker = taking_tokens()
    one, two = attached(broker, "eyJ.nameless.x"), attached(broker, "eyJ.nameless.x")
    connections: list[ClientConnection] = [one.client.connection, two.client.connection]
    assert [len(each.channels) for each in connections] == [1, 1]
    cut(one)
    assert users(broker) == [(b"s", False)]


def test_a_token_has_the_limit_of_channels_of_the_user_that_it_names() -> None:
    broker = taking_tokens()
    broker.users["guest"].set_limits({"max-channels": 1})
    attached(broker, "guest")
    client = Client010(broker).open(password="eyJ.guest.x")
    client.send(1, SessionAttach(b"other"))
    assert client.names() == ["connection.close"]
