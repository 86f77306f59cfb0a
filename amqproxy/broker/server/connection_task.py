"""Task of one client: carries bytes between its transport and its protocol's connection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.client_connection import ClientFacts
from amqproxy.broker.connections.closing import SocketClosing
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.broker.server.protocol_choice import ProtocolChoice
from amqproxy.broker.server.send_scheduler import SendScheduler
from amqproxy.peer import CLIENT
from amqproxy.process.supervision import supervised
from amqproxy.sockets.transport import Transport, TransportBroken

MOST_UNSENT = 32 * 1024 * 1024
"""Bytes waiting to be sent above which reading stops; deliveries stop at a lower limit, so these are replies."""


BLOCKED_LOOK = 1.0
"""Seconds between two checks whether a blocked client, which is not read, is still connected."""

STALLED_INTERVALS = 3
"""Number of heartbeat intervals after which a client that takes no output is reset."""

STALLED_TIME = 30.0
"""Maximum of that time in seconds, and its value for a client without heartbeats, as in RabbitMQ."""

SLICE = 64 * 1024
"""Bytes that a client must take within that time."""

OFFERED = 32
"""Pieces offered to a socket at once: of large bodies it takes fewer, and each offered piece costs time."""


READING = 8
"""Number of turns that may process the bytes of one read if all of them are publishes and acks: their amount is small,
and splitting it over turns costs the fastest publishers most."""


class ConnectionTask:
    """Reading task of one client; the output that a read causes, for this client or others, is sent immediately.

    Output that a socket does not take at once is sent by a separate task in `nursery`. No exception leaves any of them.
    `is_ended` is set once everything is sent. `tap` is shown all traffic. `first` is the connection that serves every
    client until its protocol header is known.
    """

    __slots__ = (
        "_broker",
        "_choice",
        "_has_failed",
        "_is_listed",
        "_is_sending",
        "_may_read",
        "_nursery",
        "_scope",
        "_send_scheduler",
        "_tap",
        "_transport",
        "connection",
        "first",
        "is_ended",
    )

    def __init__(
        self,
        broker: Broker,
        send_scheduler: SendScheduler,
        transport: Transport,
        nursery: trio.Nursery,
        *,
        is_loopback: bool = True,
        name: str = "",
        certificate_name: str | None = None,
        user: User | None = None,
        tap: ConnectionTap | None = None,
    ) -> None:
        self._broker = broker
        self._send_scheduler = send_scheduler
        self._tap = tap
        self._transport = transport
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._may_read = trio.Event()
        self._has_failed = False
        self._is_listed = False
        self._is_sending = False
        self.is_ended = trio.Event()
        described: ClientFacts = {
            "is_loopback": is_loopback,
            "wake": self._wake,
            "name": name,
            "certificate_name": certificate_name,
            "user": user,
            "now": current_time(),
        }
        choice = ProtocolChoice(lambda dialect: dialect.connection(broker, **described))
        self.first = self.connection = choice.found
        self._choice: ProtocolChoice | None = choice

    async def run(self) -> None:
        """Serve the client until it is gone, or had to go."""
        is_gone = False
        reason = "closed without connection.close"
        try:
            with self._scope:
                try:
                    await self._read()
                except TransportBroken as error:
                    reason = str(error)
            is_gone = True
        finally:
            self._lose(is_gone=is_gone)
            self._broker.refused.discard(self.connection)
            self.is_ended.set()
            if self._tap is not None:
                self._tap.ended("server reset the connection" if self._scope.cancelled_caught else f"client {reason}")
            with trio.CancelScope(shield=True):
                await self._close_socket()

    async def _close_socket(self) -> None:
        """Close the socket, by a reset if the client is cut or has not closed it in time."""
        if self._scope.cancelled_caught:
            await self._transport.reset()
        else:
            await self._transport.aclose()

    # --- reading

    async def _read(self) -> None:
        """Read until the client has closed its half and all output is sent."""
        receive = self._transport.receive
        connection = self.connection
        while data := await receive():
            if self._tap is not None:
                self._tap.received(data)
            # A client may send more after its close, as amqplib does: a reset for that might lose the broker's reply.
            if not connection.is_over:
                self._feed(data)
                connection = self.connection
                if (
                    connection.is_blocked
                    or connection.is_behind
                    or connection.output.is_over(MOST_UNSENT)
                    or self._is_disk_behind()
                ):
                    await self._wait()
        if connection.is_over:
            await self.is_ended.wait()

    def _feed(self, data: bytes) -> None:
        now = current_time()
        self._send_scheduler.hold()
        self._broker.work.quantum.begin(READING)
        try:
            if self._choice is None:
                self.connection.feed(data, now)
            else:
                self._choose(self._choice, data, now)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        self._send_scheduler.flush(now)

    def _choose(self, choice: ProtocolChoice, data: bytes, now: float) -> None:
        """Find out from the first bytes which protocol the client speaks."""
        try:
            choice.feed(data, now)
        finally:
            self.connection = choice.found
        if choice.is_made:
            self._choice = None

    def _is_disk_behind(self) -> bool:
        storage = self._broker.storage
        return storage is not None and storage.journal.is_full

    async def _wait(self) -> None:
        """Wait until the client may be read again."""
        connection = self.connection
        while not connection.is_over:
            self._may_read = trio.Event()
            if self._is_disk_behind():
                assert self._broker.storage is not None
                self._broker.storage.journal.when_committed(self._may_read.set, self._scope.cancel)
                connection.is_paused = True
            elif not connection.is_blocked and not connection.is_behind and not connection.output.is_over(MOST_UNSENT):
                return
            while (connection.is_blocked or connection.is_awaiting) and not self._may_read.is_set():
                with trio.move_on_after(BLOCKED_LOOK):
                    await self._may_read.wait()
                if not self._may_read.is_set() and self._transport.has_hung_up():
                    raise TransportBroken("gone while it had to wait")
            await self._may_read.wait()
            if connection.is_paused:
                connection.is_paused = False
                connection.liveness.note_received(CLIENT, current_time())

    # --- sending

    def _wake(self) -> None:
        """Schedule sending and resume reading, because the connection has output, is over, or may be read again."""
        if not self._is_listed and not self._is_sending:
            self._is_listed = True
            self._send_scheduler.add(self)
        self._may_read.set()
        if self.connection.end is SocketClosing.LOST:
            self._scope.cancel()

    def send(self, now: float) -> None:
        """Send as much output as the socket takes without waiting; a separate task sends the rest."""
        self._is_listed = False
        if self._is_sending:
            return
        connection = self.connection
        try:
            pieces = connection.take_pieces()
            if self._tap is not None:
                self._tap.sent(pieces)
            sent = self._transport.send_pieces_now(pieces) if pieces else 0
            rest = remaining(pieces, sent)
            if rest or connection.is_over:
                self._is_sending = True
                self._nursery.start_soon(partial(supervised, "connection failed", self._send, rest, then=self._fail))
            else:
                connection.sent(now)
        except TransportBroken:
            self._scope.cancel()
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    async def _send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send all there is, and what comes meanwhile; the end too, if the connection is over."""
        connection = self.connection
        try:
            while pieces:
                if not await self._send_all(list(pieces)):
                    return
                self._broker.work.quantum.begin()
                connection.sent(current_time())
                self._may_read.set()
                await trio.lowlevel.checkpoint()
                pieces = connection.take_pieces()
                if self._tap is not None:
                    self._tap.sent(pieces)
            if connection.is_over:
                await self._end()
        except TransportBroken:
            self._scope.cancel()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        self._is_sending = connection.is_over
        if connection.waiting:
            self._wake()

    async def _send_all(self, pieces: list[bytes | memoryview]) -> bool:
        """Send pieces to a client; return False if it has stopped reading and is reset."""
        heartbeat = self.connection.liveness.heartbeat
        patience = min(STALLED_TIME, STALLED_INTERVALS * heartbeat) if heartbeat else STALLED_TIME
        taken = SLICE
        with trio.CancelScope() as scope:
            while pieces:
                if taken >= SLICE:
                    taken = 0
                    scope.deadline = trio.current_time() + patience
                some = pieces[:OFFERED]
                sent = await self._transport.send_some(some)
                taken += sent
                rest = remaining(some, sent)
                del pieces[: len(some) - len(rest)]
                if rest:
                    pieces[0] = rest[0]
        if scope.cancelled_caught:
            self.connection.cut("client does not read what it is sent")
            return False
        return True

    # --- the end

    async def _end(self) -> None:
        """Start the client's time limit for closing, after all output is sent."""
        self._scope.deadline = trio.current_time() + self.connection.patience
        if self.connection.end is not SocketClosing.REFUSED:  # which may yet be cut before its time
            self._lose()
        if self.connection.end is SocketClosing.AGREED:
            await self._transport.send_eof()
        self.is_ended.set()

    def _lose(self, *, is_gone: bool = False) -> None:
        now = current_time()
        self._send_scheduler.hold()
        self._broker.work.quantum.begin()
        try:
            self.connection.lose(now, is_gone=is_gone)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        self._send_scheduler.flush(now)

    def _fail(self, error: Exception) -> None:
        """End this connection for an internal error; after a second error, cut it without a close method."""
        self._broker.events.fail("connection failed", error, client=self.connection.name)
        if self._has_failed:
            self._scope.cancel()
        self._has_failed = True
        self.connection.give_up(current_time())


def remaining(pieces: Sequence[bytes | memoryview], sent: int) -> Sequence[bytes | memoryview]:
    """Return the pieces without their first `sent` bytes."""
    for place, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[place + 1 :]] if sent or place else pieces
        sent -= len(piece)
    return ()
