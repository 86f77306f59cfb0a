"""A leg without a session: its transport plays a script, and its connection has come as far as a test needs."""

from dataclasses import dataclass, field

import trio

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.sockets.transport import TransportBroken
from tests.amqp091.tracking import TrackingConnection
from tests.transcripts.words import octets


@dataclass
class Script:
    """A transport whose peer sends `lines`, whatever it is sent; None is a reset. After them it sends nothing.

    `told` is what it was sent.
    """

    lines: list[bytes | None]
    told: bytes = b""
    received: int = 0
    progress: int = 0
    is_listening: bool = False
    ends: list[str] = field(default_factory=list)

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self.lines:
            await trio.sleep_forever()
        line = self.lines.pop(0)
        if line is None:
            raise TransportBroken("reset by the peer")
        return line

    async def send(self, data: bytes | memoryview) -> None:
        self.told += data

    async def send_eof(self) -> None:
        self.ends.append("EOF")

    async def aclose(self) -> None:
        self.ends.append("closed")

    async def reset(self) -> None:
        self.ends.append("reset")


def leg_in(state: ConnectionState, peer: Peer, *lines: bytes | None) -> tuple[Amqp091Leg, Script]:
    """A leg whose connection has come as far as `state`."""
    connection = TrackingConnection(initial_frame_max=131_072)
    connection.receive_header(CLIENT, HEADER)
    for speaker, said in (
        (SERVER, "connection.start"),
        (CLIENT, "connection.start-ok"),
        (SERVER, "connection.tune"),
        (CLIENT, "connection.tune-ok"),
        (CLIENT, "connection.open"),
        (SERVER, "connection.open-ok"),
    ):
        if connection.state is not state:
            connection.feed(speaker, octets(said))
    assert connection.state is state
    script = Script(list(lines))
    return Amqp091Leg(peer, script, connection), script
