"""The login of the proxy on a connection that clients will share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import InternalError, ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, every_frame
from amqproxy.amqp091.login import response_of
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.amqp091.wire import Table
from amqproxy.peer import Peer
from amqproxy.proxy.broker_login import receive_frames, send_close
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import ClosedByBroker, Limits, Offer
from amqproxy.proxy.session.session_report import VHOST_DOWN
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rabbitmq.profile import CAPABILITIES
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import Transport, TransportBroken

INITIAL_FRAME_MAX = 131_072
"""Largest frame that is accepted before connection.tune."""

CLOSE_TIMEOUT = 5.0
CLOSE_TEXT = "the pool does not need the connection"


LoginFrames = list[tuple[Peer, Sequence[Frame]]]
"""The frames of a login, with their senders."""


class LoggedIn:
    """A connection on which the broker has accepted a login and not yet opened a virtual host.

    `tune` are the broker's limits; `behind` is what it has sent in one piece with the answer to connection.open.
    `successor` is a token that the broker has to be sent, since it was renewed during the login. `login` are all frames
    so far.
    """

    def __init__(
        self, transport: Transport, connection: Connection, tune: ConnectionTune, login: LoginFrames | None = None
    ) -> None:
        self.transport = transport
        self.connection = connection
        self.tune = tune
        self.behind: list[Method] = []
        self.successor: Secret | None = None
        self.login: LoginFrames = [] if login is None else login

    async def open(self, vhost: str) -> None:
        """Open a virtual host; raise `ClosedByBroker`, `Unreachable` or `TransportBroken`."""
        connection, tune = self.connection, self.tune
        agreed = ConnectionTuneOk(tune.channel_max, tune.frame_max, tune.heartbeat)
        output = connection.send(CLIENT, 0, agreed) + connection.send(CLIENT, 0, ConnectionOpen(vhost))
        self.login.append((CLIENT, every_frame(output, 0)))
        await self.transport.send(output)
        while True:
            methods = await _received(self.transport, connection, self.login)
            for place, method in enumerate(methods):
                if isinstance(method, ConnectionOpenOk):
                    self.behind = methods[place + 1 :]
                    return
                if isinstance(method, ConnectionClose):
                    if method.reply_code == InternalError.code and VHOST_DOWN in method.reply_text:
                        raise Unreachable("vhost down", method.reply_text)
                    raise ClosedByBroker(method.reply_code, method.reply_text)

    async def close(self) -> None:
        """Close the connection properly, if the broker answers soon; RabbitMQ would log a warning otherwise."""
        with trio.move_on_after(CLOSE_TIMEOUT), suppress(TransportBroken, ProtocolError):
            if self.connection.state is ConnectionState.OPEN:
                await send_close(self.transport, self.connection, CLOSE_TEXT, CLOSE_TIMEOUT)
            else:
                await self.transport.send(self.connection.send(CLIENT, 0, ConnectionClose(200, CLOSE_TEXT, 0, 0)))
                while await self.transport.receive():
                    pass
        await self.transport.aclose()


async def log_in(transport: Transport, answer: bytes, credential: Credential, offer: Offer) -> LoggedIn:
    """Log in to a broker that has answered the protocol header; `offer` learns what it offers.

    Raises `ClosedByBroker`, `Unreachable` or `TransportBroken`.
    """
    connection = Connection(initial_frame_max=INITIAL_FRAME_MAX)
    connection.receive_header(CLIENT, HEADER)
    try:
        frames = connection.feed(SERVER, answer)
        methods: list[Method] = [each.method for each in frames if each.kind == METHOD]
    except ProtocolError as error:
        raise _unreadable(error) from None
    login: LoginFrames = [(SERVER, frames)]
    while True:
        for method in methods:
            match method:
                case ConnectionStart():
                    offer.properties = method.server_properties
                    output = connection.send(CLIENT, 0, _start_ok(method, credential))
                    login.append((CLIENT, every_frame(output, 0)))
                    await transport.send(output)
                case ConnectionTune():
                    offer.learn_limits(Limits(method.channel_max, method.frame_max, method.heartbeat))
                    return LoggedIn(transport, connection, method, login)
                case ConnectionClose():
                    raise ClosedByBroker(method.reply_code, method.reply_text)
                case _:
                    pass
        methods = await _received(transport, connection, login)


async def _received(transport: Transport, connection: Connection, login: LoginFrames) -> list[Method]:
    try:
        frames = await receive_frames(transport, connection)
    except ProtocolError as error:
        raise _unreadable(error) from None
    login.append((SERVER, frames))
    return [each.method for each in frames if each.kind == METHOD]


def _unreadable(error: ProtocolError) -> TransportBroken:
    return TransportBroken(f"the broker does not keep to the protocol: {error}")


def _start_ok(start: ConnectionStart, credential: Credential) -> ConnectionStartOk:
    """Return the answer to connection.start, in which the proxy asks for all that any client may ask for."""
    properties = Table(
        {
            "product": "amqproxy",
            "connection_name": f"amqproxy pool of {credential.user}",
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
    )
    mechanism, response = response_of(start.mechanisms, credential.user, credential.password.reveal())
    return ConnectionStartOk(properties, mechanism, response, "en_US")
