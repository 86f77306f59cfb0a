"""One leg of a session of AMQP 0-10: the transport to one peer, and the connection state on it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Protocol

import trio

from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from amqproxy.amqp010.errors import MAX_REPLY_TEXT, ProtocolError
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.tally import Tally
from amqproxy.amqp010.transitions import CONNECTION_CLOSING, ConnectionState
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.conversion.error_codes import connection_code
from amqproxy.peer import Peer
from amqproxy.proxy.turns import TurnQueue
from amqproxy.proxy.watched_leg import WatchedLeg
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.amqp010_chunk import AMQP010Chunk

MOST_RETAINED = 256
"""Detached sessions that are remembered in case their client comes back: of others, only what is new is known."""

TAKES_CLOSE = frozenset({ConnectionState.OPENING, ConnectionState.OPEN})
"""When a peer understands connection.close, as of 0-9-1."""

_CLOSED_BY = {Peer.CLIENT: ConnectionState.CLOSED_BY_CLIENT, Peer.SERVER: ConnectionState.CLOSED_BY_SERVER}
_LAST = frozenset({ConnectionClose.index, ConnectionCloseOk.index})
_CLOSE_OK = encode_method(0, ConnectionCloseOk())


class OwnAMQP010Frames(Protocol):
    """Is shown frames that pass between us and one peer only."""

    def note_own_amqp010_frames(self, leg: Peer, sender: Peer, frames: AMQP010Chunk) -> None: ...


class AMQP010Leg(WatchedLeg[Connection]):
    """The transport to `peer`, its `reader`, and the `Connection` in which we play the other part.

    The peer's frames count into `tally`. It `is_framed` while only whole frames are sent to the peer: not where bytes
    pass that cannot be read. `report`, if there is one, records how we close the connection.
    """

    __slots__ = ("is_framed", "reader", "report")

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        tallies: dict[Peer, Tally] | None = None,
        report: OwnAMQP010Frames | None = None,
        turns: TurnQueue | None = None,
    ) -> None:
        connection = Connection(initial_frame_max=0, tallies=tallies, most_retained=MOST_RETAINED)
        super().__init__(peer, transport, connection, turns)
        self.reader = self.connection.readers[peer]
        self.reader.zero_copy = True
        self.is_framed = True
        self.report = report

    @property
    def takes_close(self) -> bool:
        """Would the peer understand a connection.close of ours now?"""
        return self.is_framed and self.connection.state in TAKES_CLOSE

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

    def close(self, error: ProtocolError091) -> bytes:
        """Close the connection for `error`, if the peer takes that: the bytes that are to be sent.

        From here on the connection counts as closed by us, whenever they leave.
        """
        text = error.text.encode("utf-8", "replace")[:MAX_REPLY_TEXT].decode("utf-8", "ignore")
        return self._sent(ConnectionClose(connection_code(error.code), text))

    def _sent(self, method: Method) -> bytes:
        """A control of our own on the connection itself: the bytes that are to be sent."""
        data = encode_method(0, method)
        with suppress(ProtocolError):
            self.connection.receive(self.peer.other, Frame(data))
        self._show(self.peer.other, data)
        return data

    def _show(self, sender: Peer, data: bytes) -> None:
        if self.report is not None:
            self.report.note_own_amqp010_frames(self.peer, sender, AMQP010Chunk(data, 0, [None]))

    async def answer_close(self) -> None:
        """Send close-ok, if the peer has sent close and waits for it. `TransportBroken` if the peer is gone."""
        if self.connection.state in (_CLOSED_BY[self.peer], ConnectionState.CLOSED_BY_BOTH):
            await self.transport.send(self._sent(ConnectionCloseOk()))

    async def send_close(self, error: ProtocolError091, timeout: float, *, is_understood: bool = False) -> None:
        """Close the connection in good order, for `error`; within `timeout` seconds, or not at all."""
        with trio.move_on_after(timeout):
            try:
                if self.is_framed:
                    await self.answer_close()
                if self.takes_close:
                    await self.transport.send(self.close(error))
                    await self.linger()
            except TransportBroken:
                pass

    def take_last(self, frame: Frame) -> None:
        """Take a frame of a peer that was sent connection.close: only what ends the connection counts."""
        with suppress(ProtocolError):
            self.connection.receive(self.peer, frame)
        if frame.index in _LAST:
            self._show(self.peer, frame.raw)

    async def linger(self) -> None:
        """Read, and throw away, until the peer has answered a close or is gone (or `TransportBroken`)."""
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
            self.take_last(frame)
        await self.answer_close()
