"""A shared upstream connection: the tasks that receive and send for all its clients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, encode_method
from amqproxy.amqp091.methods import ConnectionClose
from amqproxy.process.supervision import contained
from amqproxy.proxy.amqp091.pools.lane import Lane
from amqproxy.proxy.amqp091.pools.shared_connection import SharedConnection
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.shared_legs import SharedLeg

CHUNK = 256 * 1024
"""Largest number of bytes that are sent at once, before the next clients have their turns."""

CLOSE_TIMEOUT = 5.0


class SharedClient(Protocol):
    """A client of a shared upstream; `is_culprit` is set if the broker has closed it for what the client has sent."""

    is_culprit: bool

    def tell_blocked(self, reason: str | None) -> None: ...

    def end_by(self, close: ConnectionClose) -> None: ...

    def lose(self, reason: str) -> None: ...

    def note_progress(self) -> None: ...

    def is_suspect(self, close: ConnectionClose) -> bool: ...


class SharedUpstream:
    """An upstream connection for many clients, over `transport`, whose virtual host is open.

    `on_end` is called once it has ended; if the broker has closed it by connection.close, that is in `shared.closed`.
    `retires_at` is when it takes no more clients.
    """

    def __init__(
        self,
        transport: Transport,
        connection: Connection,
        on_end: Callable[[SharedUpstream, str], None],
        retires_at: float = math.inf,
        leg: SharedLeg | None = None,
    ) -> None:
        self.transport = transport
        self.shared = SharedConnection(connection, leg)
        self.clients: set[SharedClient] = set()
        self.retires_at = retires_at
        self.idle_since = trio.current_time()
        self.is_over = False
        self.reserve_filled = trio.Event()
        self.on_leave: Callable[[], None] = lambda: None
        """Called when a client has left its place."""
        self._left: set[Lane] = set()
        self._on_end = on_end
        self._is_sending = False
        self._has_more = trio.Event()
        self._unsent: bytes | memoryview = b""
        self._sent_at = trio.current_time()
        self._scope = trio.CancelScope()
        self._is_closing = False
        self.shared.fill_reserve()

    @property
    def frame_max(self) -> int:
        return self.shared.connection.frame_max

    def attach(self, client: SharedClient) -> None:
        self.clients.add(client)

    def detach(self, client: SharedClient) -> None:
        self.clients.discard(client)
        self.idle_since = trio.current_time()
        self.on_leave()

    def keep_place(self, lane: Lane) -> None:
        """Keep the place of a client that has left until the broker has taken all that it has sent.

        So what waits for all clients together is bounded, whether they stay or not. A direct connection is kept, too.
        """
        if lane.size and not self.is_over:
            self._left.add(lane)

    @property
    def places(self) -> int:
        """The number of places that clients have, or have left with something still to be sent."""
        return len(self.clients) + len(self._left)

    @property
    def left_bytes(self) -> int:
        """Number of bytes that wait for the broker after their clients have left."""
        return sum(lane.size for lane in self._left.copy())  # a scrape asks in its own thread

    def _free_places(self) -> None:
        """Free the places of clients that have left, if nothing of theirs waits any more."""
        sent = {lane for lane in self._left if not lane.size}
        if sent:
            self._left -= sent
            self.on_leave()

    # --- tasks

    async def run(self) -> None:
        """Receive and send until the connection ends."""
        reason = "the shared upstream was closed"
        try:
            with contained("shared upstream failed"), self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send)
                    reason = await self._receive()
                    nursery.cancel_scope.cancel()
        finally:
            self.is_over = True
            self.shared.leg.end(reason)
            with trio.CancelScope(shield=True):
                await self.transport.aclose()
            self.reserve_filled.set()
            self._on_end(self, reason)

    async def _receive(self) -> str:
        """Process what the broker sends; return why it has ended."""
        patience = 2 * self.shared.connection.heartbeat or math.inf
        while self.shared.closed is None:
            try:
                with trio.move_on_after(patience) as scope:
                    data = await self.transport.receive()
                if scope.cancelled_caught:
                    return f"the broker has sent nothing for {patience:g} s"
                if not data:
                    return "closed by the broker"
                self._feed(data)
            except (TransportBroken, ProtocolError) as error:
                return str(error)
        return f"closed by the broker: {self.shared.closed.reply_text}"

    def _feed(self, data: bytes) -> None:
        shared = self.shared
        was_blocked = shared.blocked_for
        shared.feed(data)
        if shared.blocked_for != was_blocked:
            for client in list(self.clients):
                client.tell_blocked(shared.blocked_for)
        if shared.has_reserve:
            self.reserve_filled.set()
            self.reserve_filled = trio.Event()
        self.flush()

    def flush(self) -> None:
        """Send what can be sent without waiting."""
        if self._is_sending or self.is_over:
            return
        while self.shared.has_output:
            output = self.shared.take_output(CHUNK)
            try:
                sent = self.transport.send_now(output)
            except TransportBroken:
                return  # the receiving task reports it
            self._sent_at = trio.current_time()
            if sent < len(output):
                self._is_sending = True
                self._unsent = memoryview(output)[sent:]
                self._has_more.set()
                return

    async def _send(self) -> None:
        """Send what could not be sent at once, and heartbeats."""
        interval = self.shared.connection.heartbeat / 2 or math.inf
        while True:
            with trio.move_on_at(self._sent_at + interval):
                await self._has_more.wait()
            if not self._has_more.is_set() and trio.current_time() >= self._sent_at + interval:
                self._sent_at = trio.current_time()
                self.shared.send_urgently(HEARTBEAT_FRAME)
                self.flush()
            if not self._is_sending:
                self._has_more = trio.Event()
                continue
            try:
                while self._unsent:
                    await self.transport.send(self._unsent)
                    self._sent_at = trio.current_time()
                    for client in list(self.clients):
                        client.note_progress()
                    self._unsent = self.shared.take_output(CHUNK)
                    self._free_places()
            except TransportBroken:
                await trio.sleep_forever()  # the receiving task reports it
            self._is_sending = False
            self._has_more = trio.Event()

    def renew(self, secret: Secret) -> None:
        """Send the broker the successor of the token with which the connection was opened."""
        self.shared.renew(secret.reveal().encode("utf-8", "surrogateescape"))
        self.flush()

    # --- the end

    def abort(self) -> None:
        """End the connection at once."""
        self._scope.cancel()

    async def close(self, text: str) -> None:
        """Close the connection properly, if nobody uses it."""
        if self._is_closing or self.is_over:
            return
        self._is_closing = True
        self.shared.send_urgently(encode_method(0, ConnectionClose(200, text, 0, 0)))
        self.flush()
        await trio.sleep(CLOSE_TIMEOUT)
        self.abort()
