"""One leg of a session: the transport to one peer, and the connection state on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, encode_method, every_frame
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk, Method
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CONNECTION_CLOSING, ConnectionState, Peer
from amqproxy.config import Limits
from amqproxy.proxy.turns import TurnQueue
from amqproxy.proxy.watched_connection import WatchedConnection
from amqproxy.proxy.watched_leg import WatchedLeg
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.metrics import Metrics

TAKES_CLOSE = frozenset({ConnectionState.OPENING, ConnectionState.OPEN})
"""When a peer understands connection.close. Before, RabbitMQ only closes the socket; so do we."""

QUANTUM_FRAMES = 64
"""Frames that are looked at before the time is."""

_CLOSED_BY = {Peer.CLIENT: ConnectionState.CLOSED_BY_CLIENT, Peer.SERVER: ConnectionState.CLOSED_BY_SERVER}
_CLOSE_OK = encode_method(0, ConnectionCloseOk())


class OwnFrames(Protocol):
    """Is shown frames that pass between us and one peer only."""

    def note_own_frames(self, leg: Peer, sender: Peer, frames: Sequence[Frame]) -> None: ...


class Leg(WatchedLeg[Connection]):
    """The transport to `peer`, and the `Connection` in which we play the other part.

    `report`, if there is one, records how we close the connection.
    """

    __slots__ = ("reader", "report")

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

    @property
    def takes_close(self) -> bool:
        """Would the peer understand a connection.close of ours now?"""
        return self.connection.state in TAKES_CLOSE

    @property
    def is_open(self) -> bool:
        """Is the connection past its handshake, and neither peer closing it?"""
        return self.connection.state is ConnectionState.OPEN

    @property
    def is_closing(self) -> bool:
        """Is either peer closing the connection, or is it closed?"""
        return self.connection.state in CONNECTION_CLOSING

    @property
    def has_crossed(self) -> bool:
        """Have both closed the connection, and neither answered?"""
        return self.connection.state is ConnectionState.CLOSED_BY_BOTH

    @property
    def is_closed(self) -> bool:
        """Have all that were sent connection.close answered it?"""
        return self.connection.state is ConnectionState.CLOSED

    async def turn_away(self, timeout: float, header: bytes = HEADER) -> None:
        """Answer a client of another protocol with the header of the one that is taken, and let it close."""
        with trio.move_on_after(timeout):
            try:
                await self.transport.send(header)
                await self.transport.send_eof()
                while await self.transport.receive():
                    pass
            except TransportBroken:
                pass

    def close(self, error: ProtocolError) -> bytes:
        """Close the connection for `error`, if the peer takes that: the bytes that are to be sent.

        From here on the connection counts as closed by us, whenever they leave.
        """
        close = ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id)
        return self._sent(close)

    def _sent(self, method: Method) -> bytes:
        """A method of our own on the connection itself: the bytes that are to be sent."""
        data = self.connection.send(self.peer.other, 0, method)
        self._show(self.peer.other, data)
        return data

    def _show(self, sender: Peer, data: bytes) -> None:
        if self.report is not None:
            self.report.note_own_frames(self.peer, sender, every_frame(data, 0))

    async def answer_close(self) -> None:
        """Send close-ok, if the peer has sent close and waits for it. `TransportBroken` if the peer is gone."""
        if self.connection.state in (_CLOSED_BY[self.peer], ConnectionState.CLOSED_BY_BOTH):
            await self.transport.send(self._sent(ConnectionCloseOk()))

    async def send_close(self, error: ProtocolError, timeout: float, *, is_understood: bool = False) -> None:
        """Close the connection in good order, for `error`; within `timeout` seconds, or not at all.

        It is sent also to a peer that would usually not understand it yet, if `is_understood`.
        """
        with trio.move_on_after(timeout):
            try:
                await self.answer_close()
                if self.takes_close or is_understood:
                    await self.transport.send(self.close(error))
                    await self.linger()
            except TransportBroken:
                pass

    async def linger(self) -> None:
        """Read, and throw away, until the peer has answered a close or is gone (or `TransportBroken`).

        Closing a socket with unread bytes resets it, and the peer loses what was sent last.
        """
        lost = b""
        self.reader.quantum = 0
        if self.reader.is_paused:
            await self._await_close_ok(self.reader.resume())
        while self.connection.state is not ConnectionState.CLOSED:
            data = await self.transport.receive()
            if not data:
                return
            began = time.perf_counter()
            if self.reader.error is None:
                await self._await_close_ok(self.reader.feed(data))
            else:  # frame boundaries are lost; but the answer can be recognised by its bytes
                lost = lost[-len(_CLOSE_OK) :] + data
                if _CLOSE_OK in lost:
                    self._show(self.peer, _CLOSE_OK)
                    break
            ended = time.perf_counter()
            if self.turn.is_over(began, ended, ended):
                await self.turn.next()
        await self.transport.send_eof()

    async def _await_close_ok(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.channel == 0 and frame.kind == METHOD:
                try:
                    self.connection.receive(self.peer, frame)
                except ProtocolError:
                    continue  # it was sent an error before
                self._show(self.peer, frame.raw)
                await self.answer_close()


def new_leg(
    peer: Peer,
    transport: Transport,
    limits: Limits,
    metrics: Metrics,
    report: OwnFrames | None = None,
    turns: TurnQueue | None = None,
) -> Leg:
    """A leg of a session, at the beginning of its connection."""
    kind = WatchedConnection if peer is Peer.CLIENT else Connection
    connection = kind(initial_frame_max=limits.initial_frame_max, header_max=limits.frame_max, tallies=metrics.tallies)
    leg = Leg(peer, transport, connection, report, turns)
    leg.reader.quantum = QUANTUM_FRAMES
    return leg
