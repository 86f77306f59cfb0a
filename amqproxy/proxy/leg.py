"""One leg of a session: the transport to one peer, and the state of the connection on it.

The dialects' legs derive from `Leg`. Both protocols' tables of connection states use the same names for the states that
matter here, so that `Leg` answers a session's questions for both.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.turns import Turn, TurnQueue
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport, TransportBroken

HEARTBEAT_LEEWAY = 2.0
"""Seconds by which the other peer may detect a silent peer sooner than the proxy: each checks at its own times."""

QUANTUM_FRAMES = 64
"""Number of frames processed between two checks of the time."""

_TAKES_CLOSE = frozenset({"opening", "open"})
"""States in which a peer understands connection.close. Before, RabbitMQ only closes the socket; so does the proxy."""

_CLOSING = frozenset({"closed by client", "closed by server", "closed by both", "closed"})
_AWAITS_CLOSE_OK = {peer: frozenset({f"closed by {peer}", "closed by both"}) for peer in Peer}


class AnyConnection(Protocol):
    """A connection of either protocol; `heartbeat` is the negotiated interval in seconds, or 0."""

    heartbeat: int
    state: Any

    def note_received(self, sender: Peer, now: float) -> None: ...

    def is_silent(self, sender: Peer, now: float) -> bool: ...

    def is_heartbeat_due(self, sender: Peer, now: float) -> bool: ...

    def heard(self, sender: Peer, now: float) -> float: ...


ConnectionT = TypeVar("ConnectionT", bound=AnyConnection)


class Leg(ABC, Generic[ConnectionT]):
    """The `transport` to `peer`, its `reader`, and the `connection` in which the proxy plays the opposite part.

    The peer's bytes are processed in its `turn`. `unfed` holds the bytes that an ended relay has received but not fed
    to the reader.
    """

    __slots__ = ("_received", "connection", "peer", "transport", "turn", "unfed")

    CLOSE_OK: ClassVar[bytes]
    """The encoded frame that answers connection.close."""

    reader: Any

    def __init__(
        self, peer: Peer, transport: Transport, connection: ConnectionT, turns: TurnQueue | None = None
    ) -> None:
        self.peer = peer
        self.transport = transport
        self.connection = connection
        self.turn = Turn(TurnQueue() if turns is None else turns)
        self._received = -1
        self.unfed = b""

    @property
    def name(self) -> str:
        """The peer's name in log lines."""
        return "client" if self.peer is CLIENT else "upstream"

    # --- heartbeats

    def missed_heartbeats(self, now: float, leeway: float = 0.0) -> str:
        """Return why the peer counts as silent, now or within `leeway` seconds; "" if it does not.

        A peer that is not being read from, because earlier data is still being forwarded, is not silent. To be called
        at intervals: bytes from a peer count as received at the next call.
        """
        heartbeat = self.connection.heartbeat
        if not heartbeat:
            return ""
        before, self._received = self._received, self.transport.received
        if self._received != before or not self.transport.is_listening:
            self.connection.note_received(self.peer, now)
        elif self.connection.is_silent(self.peer, now + min(leeway, heartbeat)):
            return f"missed its heartbeats, of which there is one in {heartbeat} s"
        return ""

    def heard(self, now: float) -> float:
        """Return when the peer was last heard; `now` if bytes have come since the last call of `missed_heartbeats`."""
        return self.connection.heard(self.peer, now) if self._received == self.transport.received else now

    def note_heard(self, at: float) -> None:
        """Record the time at which the last bytes were received."""
        self._received = self.transport.received
        self.connection.note_received(self.peer, at)

    # --- the end of the connection

    @property
    def takes_close(self) -> bool:
        """Whether the peer currently understands a connection.close of the proxy."""
        return self.connection.state in _TAKES_CLOSE

    @property
    def is_open(self) -> bool:
        """Whether the connection is past its handshake, and neither peer is closing it."""
        return bool(self.connection.state == "open")

    @property
    def is_closing(self) -> bool:
        """Whether either peer is closing the connection, or it is closed."""
        return self.connection.state in _CLOSING

    @property
    def has_crossed(self) -> bool:
        """Whether both peers have closed the connection, and neither has answered."""
        return bool(self.connection.state == "closed by both")

    @property
    def is_closed(self) -> bool:
        """Whether every peer that was sent connection.close has answered it."""
        return bool(self.connection.state == "closed")

    @property
    def awaits_close_ok(self) -> bool:
        """Whether the peer has sent connection.close and waits for its answer."""
        return self.connection.state in _AWAITS_CLOSE_OK[self.peer]

    def expects_close(self, error: ProtocolError, client: Client) -> bool:
        """Whether the peer expects connection.close for this error in a state in which it usually would not."""
        return False

    @abstractmethod
    def close(self, error: ProtocolError) -> bytes:
        """Close the connection for `error`, if the peer accepts that, and return the bytes to send.

        The connection counts as closed by the proxy from this call on, whenever the bytes are sent.
        """

    @abstractmethod
    def close_ok(self) -> bytes:
        """Answer connection.close, and return the bytes to send."""

    async def answer_close(self) -> None:
        """Send close-ok, if the peer waits for it. Raises `TransportBroken` if the peer is gone."""
        if self.awaits_close_ok:
            await self.transport.send(self.close_ok())

    async def send_close(self, error: ProtocolError, timeout: float, client: Client | None = None) -> None:
        """Close the connection cleanly, for `error`, or give up after `timeout` seconds."""
        with trio.move_on_after(timeout), suppress(TransportBroken):
            await self.answer_close()
            if self.takes_close or (client is not None and self.expects_close(error, client)):
                await self.transport.send(self.close(error))
                await self.linger()

    async def linger(self) -> None:
        """Read and discard bytes until the peer has answered a close or is gone (or raise `TransportBroken`).

        Closing a socket with unread bytes resets it, so that the peer would lose the bytes sent last.
        """
        lost, close_ok = b"", self.CLOSE_OK
        self.reader.quantum = 0
        if self.reader.is_paused:
            await self._await_close_ok(self.reader.resume())
        while not self.is_closed:
            data = self.unfed or await self.transport.receive()
            self.unfed = b""
            if not data:
                return
            began = time.perf_counter()
            if self.reader.error is None:
                await self._await_close_ok(self.reader.feed(data))
            else:  # frame boundaries are lost, but the answer can be recognised by its bytes
                lost = lost[-len(close_ok) :] + data
                if close_ok in lost:
                    self._show(self.peer, close_ok)
                    break
            ended = time.perf_counter()
            if self.turn.is_over(began, ended, ended):
                await self.turn.next()
        await self.transport.send_eof()

    async def _await_close_ok(self, frames: Sequence[Any]) -> None:
        for frame in frames:
            self.take_last(frame)
            await self.answer_close()

    @abstractmethod
    def take_last(self, frame: Any) -> None:
        """Take a frame of a peer that was sent connection.close: only frames that end the connection matter."""

    @abstractmethod
    def _show(self, sender: Peer, data: bytes) -> None:
        """Show taps a frame exchanged between the proxy and this peer only."""
