"""The login of a move at one of its brokers."""

from __future__ import annotations

from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Table
from amqproxy.moving.broker_link import Dial
from amqproxy.moving.move_job import MoveEnd
from amqproxy.proxy.upstream import Dialer

CAPABILITIES = {"publisher_confirms": True, "consumer_cancel_notify": True, "basic.nack": True}


def client_properties(name: str, **capabilities: bool) -> Table:
    """Return the client properties with further capabilities; `name` is shown in the broker's list of connections."""
    able = CAPABILITIES | capabilities
    return Table({"product": "amqproxy", "connection_name": name, "capabilities": able})


def login_of(end: MoveEnd, name: str = "amqproxy move") -> ConnectionStartOk:
    """Return the connection.start-ok."""
    return ConnectionStartOk(
        client_properties=client_properties(name), response=f"\0{end.user}\0{end.password}".encode()
    )


def dial_of(end: MoveEnd) -> Dial:
    """Return a function that connects to the broker; raise `ConfigError` if its TLS files are wrong."""
    dialer = Dialer(end.upstream, end.timeout)
    return lambda: dialer(None)
