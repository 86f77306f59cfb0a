"""The sessions of a connection: attached by their names, bounded, and refused where there is none."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionTuneOk,
    SessionAttach,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp091.methods import ChannelOpen
from amqproxy.broker.broker import Broker
from amqproxy.broker.clients import ConnectedClient
from tests.broker.amqp010.client import Client010
from tests.broker.client import connected


def closed(client: Client010) -> ConnectionClose:
    """The close that the broker has sent last."""
    close = client.receive()[-1].method
    assert isinstance(close, ConnectionClose)
    return close


def test_sessions_attach_by_their_names() -> None:
    client = Client010(Broker()).open()
    client.session(1, b"one")
    client.send(2, SessionAttach(b"one"))
    assert client.receive()[0].method == SessionDetached(b"one", 1)
    client.send(1, SessionAttach(b"two"))
    assert client.receive()[0].method == SessionDetached(b"two", 2)
    other = Client010(client.broker).open()
    other.send(1, SessionAttach(b"one", True))
    assert other.names() == ["session.attached"]
    assert client.names() == ["session.detached"]


def test_commands_need_a_session_and_a_command_point() -> None:
    client = Client010(Broker()).open()
    client.send(5, ExecutionSync())
    client.send(5, ExecutionSync())
    assert [each.method.code for each in client.receive()] == [3]
    client.send(6, SessionAttach(b"s"))
    client.send(6, ExecutionSync())
    assert [type(each.method).__name__ for each in client.receive()] == ["SessionAttached", "SessionDetached"]


def test_sessions_of_one_connection_are_bounded() -> None:
    client = Client010(Broker())
    client.feed(HEADER)
    client.send(0, client.start_ok())
    client.send(0, ConnectionTuneOk(2, 65_535, 0))
    client.send(0, ConnectionOpen("/"))
    client.receive()
    client.session(1, b"one")
    client.session(2, b"two")
    client.send(0, SessionAttach(b"three"))
    assert closed(client).reply_text == "framing-error: more than 2 sessions, which were agreed"


def test_a_user_has_so_many_sessions() -> None:
    broker = Broker()
    broker.users["guest"].set_limits({"max-channels": 2})
    Client010(broker).open().session(1, b"one")
    client = Client010(broker).open()
    client.session(1, b"two")
    client.send(2, SessionAttach(b"three"))
    assert closed(client).reply_text == "connection-forced: the user 'guest' may have 2 sessions"


class NotGoneOver(dict[ConnectedClient, None]):
    """Connections, of which there may be very many."""

    def __iter__(self) -> Iterator[ConnectedClient]:
        raise AssertionError("all connections are gone over")


def test_those_of_a_user_are_counted_and_not_looked_for() -> None:
    broker = Broker()
    user = broker.users["guest"]
    user.set_limits({"max-channels": 3})
    client, other = Client010(broker).open(), connected(broker)
    broker.connections = NotGoneOver(broker.connections)
    one = client.session(1, b"one")
    client.session(2, b"two")
    assert user.channels == 3
    one.control(SessionDetach(b"one"))
    assert client.names() == ["session.detached"]
    other.channel(2)
    client.send(1, SessionAttach(b"one"))
    assert closed(client).reply_text == "connection-forced: the user 'guest' may have 3 sessions"
    assert user.channels == 2
    other.channel(3)
    other.send(4, ChannelOpen())
    (close,) = other.receive()
    assert "user limit of (3)" in close.method.reply_text
    assert user.channels == 0
