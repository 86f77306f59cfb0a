"""One leg of a session: the transport to one peer, and what has been said on it."""

from __future__ import annotations

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.grammar import Peer, State
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk, Method
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.proxy.transport import Broken, Transport

TAKES_CLOSE = frozenset({State.OPENING, State.OPEN})
"""When a peer understands connection.close. Before, RabbitMQ only closes the socket; so do we."""


class Leg:
    """The transport to `peer`, and the `Connection` in which we play the other part."""

    def __init__(self, peer: Peer, transport: Transport, connection: Connection) -> None:
        self.peer = peer
        self.transport = transport
        self.connection = connection
        self.reader = connection.readers[peer]

    @property
    def name(self) -> str:
        """What the log calls the peer."""
        return "client" if self.peer is Peer.CLIENT else "upstream"

    async def turn_away(self, timeout: float) -> None:
        """Answer a stranger with the protocol header that we would have taken, and let it go."""
        with trio.move_on_after(timeout):
            try:
                await self.transport.send(HEADER)
                await self.transport.send_eof()
                while await self.transport.receive():
                    pass
            except Broken:
                pass

    async def say(self, channel: int, method: Method) -> None:
        """Send a method of our own. `Broken` if the peer is gone."""
        await self.transport.send(self.connection.send(self.peer.other, channel, method))

    async def say_goodbye(self, error: ProtocolError, timeout: float) -> None:
        """Close the connection in good order, for `error`; within `timeout` seconds, or not at all.

        What the peer sends until it has answered is read and thrown away, because a socket closed
        with octets unread takes the close method away with it.
        """
        if self.connection.state not in TAKES_CLOSE:
            return
        close = ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id)
        with trio.move_on_after(timeout):
            try:
                await self.say(0, close)
                await self.linger()
            except Broken:
                pass

    async def linger(self) -> None:
        """Read until the peer has answered our close or is gone."""
        while self.connection.state is not State.CLOSED:
            data = await self.transport.receive()
            if not data:
                return
            if self.reader.error is None:
                await self._listen_for_the_end(data)
        await self.transport.send_eof()

    async def _listen_for_the_end(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            try:
                self.connection.receive(self.peer, frame)
            except ProtocolError:
                continue  # it has been told once that it is wrong
            if frame.channel == 0 and isinstance(frame.method, ConnectionClose):
                await self.say(0, ConnectionCloseOk())
