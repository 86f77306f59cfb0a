"""Connections of the proxy itself to a broker: login and proper close by AMQP 0-9-1."""

from __future__ import annotations

from contextlib import suppress

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.sockets.transport import Transport, TransportBroken


class BrokerRefused(Exception):
    """The broker has closed the connection; the text has its reply code and text."""


LOST = (TransportBroken, BrokerRefused, ProtocolError, trio.TooSlowError)
"""Exceptions that end a connection without a fault of the proxy."""


async def open_connection(
    transport: Transport, connection: Connection, start: ConnectionStartOk, vhost: str, *, heartbeat: int = 0
) -> ConnectionStart:
    """Log in, and open the virtual host; return the broker's greeting. Raise one of `LOST` if that fails.

    The heartbeat interval in seconds is the smaller one of `heartbeat` and the broker's, where 0 is none.
    """
    greeting = ConnectionStart()
    connection.receive_header(CLIENT, HEADER)
    await transport.send(HEADER)
    while connection.state is not ConnectionState.OPEN:
        for method in await receive_methods(transport, connection):
            check_close(method)
            answers: tuple[Method, ...] = ()
            if isinstance(method, ConnectionStart):
                greeting, answers = method, (start,)
            elif isinstance(method, ConnectionTune):
                interval = min(heartbeat or method.heartbeat, method.heartbeat or heartbeat)
                agreed = ConnectionTuneOk(method.channel_max, method.frame_max, interval)
                answers = agreed, ConnectionOpen(vhost)
            for answer in answers:
                await transport.send(connection.send(CLIENT, 0, answer))
    return greeting


async def receive_methods(transport: Transport, connection: Connection) -> list[Method]:
    """Return the next methods, or none for heartbeats and contents. `TransportBroken` after a long silence."""
    return [frame.method for frame in await receive_frames(transport, connection) if frame.kind == METHOD]


async def receive_frames(transport: Transport, connection: Connection) -> list[Frame]:
    """Return the next frames. `TransportBroken` after a long silence."""
    with trio.move_on_after(2 * connection.heartbeat or float("inf")) as patience:
        data = await transport.receive()
    if patience.cancelled_caught:
        raise TransportBroken(f"the broker has sent nothing for {2 * connection.heartbeat} s")
    if not data:
        raise TransportBroken("closed by the broker")
    return connection.feed(SERVER, data)


def check_close(method: Method) -> None:
    """Raise `BrokerRefused` if the method closes the connection."""
    if isinstance(method, ConnectionClose):
        raise BrokerRefused(f"{method.reply_code} {method.reply_text}")


async def send_close(transport: Transport, connection: Connection, text: str, timeout: float) -> None:
    """Close an open connection cleanly, if the broker answers soon."""
    if connection.state is not ConnectionState.OPEN:
        return
    with trio.move_on_after(timeout), suppress(*LOST):
        await transport.send(connection.send(CLIENT, 0, ConnectionClose(200, text, 0, 0)))
        while not any(isinstance(method, ConnectionCloseOk) for method in await receive_methods(transport, connection)):
            pass
