"""One leg of a 0-9-1 session: the transport to one peer, and the connection state on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, encode_method, every_frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk, Method
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import ConnectionState
from amqproxy.configuration.config import Limits
from amqproxy.peer import Peer
from amqproxy.proxy.amqp091.watched_connection import WatchedConnection
from amqproxy.proxy.interception.effects import ConnectionRefusal
from amqproxy.proxy.leg import QUANTUM_FRAMES, Leg
from amqproxy.proxy.turns import TurnQueue
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.metrics import Metrics


class OwnFrames(Protocol):
    """A recorder of frames exchanged between the proxy and one peer only."""

    def note_own_frames(self, leg: Peer, sender: Peer, frames: Sequence[Frame]) -> None: ...


class Amqp091Leg(Leg[Connection]):
    """The transport to `peer`, and the `Connection` in which the proxy plays the opposite part.

    `report`, if there is one, records how the proxy closes the connection.
    """

    __slots__ = ("reader", "report")

    reader: FrameReader

    CLOSE_OK = encode_method(0, ConnectionCloseOk())

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        connection: Connection,
        report: OwnFrames | None = None,
        turns: TurnQueue | None = None,
    ) -> None:
        super().__init__(peer, transport, connection, turns)
        self.report = report
        self.reader = connection.readers[peer]

    def expects_close(self, error: ProtocolError, client: Client) -> bool:
        """Whether a client whose login or limits a rule has refused expects connection.close, as RabbitMQ decides."""
        if self.peer is not Peer.CLIENT or not isinstance(error, ConnectionRefusal):
            return False
        if self.connection.state is ConnectionState.ANSWERED:
            return client.announced("authentication_failure_close")
        return self.connection.state is ConnectionState.AGREED

    def close(self, error: ProtocolError) -> bytes:
        return self.send_own(ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id))

    def close_ok(self) -> bytes:
        return self.send_own(ConnectionCloseOk())

    def send_own(self, method: Method) -> bytes:
        """Send a method on channel 0 in the connection state, and return its bytes."""
        data = self.connection.send(self.peer.other, 0, method)
        self._show(self.peer.other, data)
        return data

    def _show(self, sender: Peer, data: bytes) -> None:
        if self.report is not None:
            self.report.note_own_frames(self.peer, sender, every_frame(data, 0))

    def take_last(self, frame: Frame) -> None:
        if frame.channel == 0 and frame.kind == METHOD:
            try:
                self.connection.receive(self.peer, frame)
            except ProtocolError:
                return  # the peer was sent an error before
            self._show(self.peer, frame.raw)


def new_leg(
    peer: Peer,
    transport: Transport,
    limits: Limits,
    metrics: Metrics,
    report: OwnFrames | None = None,
    turns: TurnQueue | None = None,
) -> Amqp091Leg:
    """Return a new leg of a session, at the start of its connection."""
    kind = WatchedConnection if peer is Peer.CLIENT else Connection
    connection = kind(
        initial_frame_max=limits.initial_frame_max, header_max=limits.frame_max, tallies=metrics.tallies[NAME]
    )
    leg = Amqp091Leg(peer, transport, connection, report, turns)
    leg.reader.quantum = QUANTUM_FRAMES
    return leg
