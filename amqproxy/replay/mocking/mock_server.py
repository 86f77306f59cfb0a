"""The trio shell of a mock: accepts clients, and carries bytes between each and its `MockConnection`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import trio

from amqproxy.configuration.values import join_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, supervised
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.dialects import DIALECTS, AnyMock, AnyScript
from amqproxy.replay.mocking.mock_connection import MockSettings
from amqproxy.replay.mocking.mock_report import MockedConnection
from amqproxy.replay.names import SharedNames
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken, plain_socket

MAX_CLIENTS = 10_000
"""Concurrent clients; further connections are closed at once."""

MAX_UNSENT = 32 << 20
"""Unsent bytes to a client above which nothing more is read from it."""

SEND_TIME = 30.0
"""Seconds in which a client must take one `SLICE` of output; else it is reset."""

SLICE = 64 * 1024
"""Bytes of output that a client must take within `SEND_TIME`."""

TLS_HANDSHAKE_TIME = 5.0
"""Seconds that a client has for its TLS handshake."""

BREATHER = 0.1
"""Seconds to wait when the system has no file descriptor left for another client."""


class MockServer:
    """The server of a mock's clients. `report` is called with each client's differences from the recording, at its end.

    The protocol header of a client selects its protocol. One that the recording lacks is answered with the header of a
    recorded protocol, and the connection closed.
    With `is_loop`, the scripts are played any number of times. With `is_once`, the server ends after its first client
    that played a connection or got no answer.
    """

    def __init__(
        self,
        scripts: Sequence[AnyScript],
        settings: MockSettings,
        report: Callable[[MockedConnection], None],
        *,
        is_loop: bool = False,
        is_once: bool = False,
    ) -> None:
        self._casts: dict[str, Cast[Any]] = {
            name: Cast(recorded, is_loop=is_loop)
            for name in DIALECTS
            if (recorded := [each for each in scripts if each.protocol == name])
        }
        self._settings = settings
        self._report = report
        self._is_once = is_once
        self._names = SharedNames()
        self._clients = 0
        self._is_done = trio.Event()

    async def serve(self, listeners: list[tuple[trio.SocketListener, ssl.SSLContext | None]]) -> None:
        """Serve clients until cancelled, or done."""
        async with trio.open_nursery() as nursery:
            for listener, context in listeners:
                nursery.start_soon(self._accept, listener, context, nursery)
            await self._is_done.wait()
            nursery.cancel_scope.cancel()

    async def _accept(
        self, listener: trio.SocketListener, context: ssl.SSLContext | None, nursery: trio.Nursery
    ) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                logger().error("cannot accept", reason=error.strerror)
                await trio.sleep(BREATHER)
                continue
            if self._clients >= MAX_CLIENTS:
                logger().warning("connection refused", limit=MAX_CLIENTS)
                await trio.aclose_forcefully(stream)
                continue
            self._clients += 1
            nursery.start_soon(supervised, "connection failed", self._welcome, stream, context)

    async def _welcome(self, stream: trio.SocketStream, context: ssl.SSLContext | None) -> None:
        try:
            try:
                name = join_address(*stream.socket.getpeername()[:2])
            except OSError:  # the client has already left
                await trio.aclose_forcefully(stream)
                return
            sock = plain_socket(stream)
            transport = SocketTransport(sock if context is None else secured(sock, context, server_side=True))
            try:
                await transport.secure(TLS_HANDSHAKE_TIME)
            except TransportBroken as error:
                logger().warning("TLS handshake failed", client=name, reason=str(error))
                return
            await _Client(transport, name, self).run()
        finally:
            self._clients -= 1

    @property
    def protocols(self) -> list[str]:
        """Names of the recorded protocols."""
        return list(self._casts)

    def new_connection(self, header: bytes = b"") -> AnyMock:
        """Return the server's side for a client with this protocol header, which is empty before it is received."""
        found = next((name for name in self._casts if header.startswith(DIALECTS[name].header)), None)
        name = found or next(iter(self._casts), next(iter(DIALECTS)))
        cast = self._casts.get(name) or Cast([])
        return DIALECTS[name].connection(cast, self._names, self._settings, trio.current_time())

    def ended(self, client: str, connection: AnyMock) -> None:
        """Finish and report the connection of a client that has left."""
        with contained("connection not reported", client=client):
            connection.finish()
            if connection.script is not None or connection.notes.unanswered:
                self._report(MockedConnection.of(client, connection))
                if self._is_once:
                    self._is_done.set()


class _Client:
    """One client: a task that reads, and one that sends and calls `tick`."""

    def __init__(self, transport: Transport, name: str, server: MockServer) -> None:
        self._transport = transport
        self._name = name
        self._server = server
        self._connection = server.new_connection()
        self._header: bytes | None = b""
        """The received part of the protocol header; None once it is complete."""
        self._has_news = trio.Event()
        self._has_room = trio.Event()
        self._logged = 0

    async def run(self) -> None:
        try:
            with contained("connection failed", client=self._name):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    await self._send()
                    nursery.cancel_scope.cancel()
        finally:
            self._server.ended(self._name, self._connection)
            with trio.CancelScope(shield=True):
                await (self._transport.reset() if self._connection.is_cut else self._transport.aclose())

    async def _read(self) -> None:
        while not self._connection.is_over:
            try:
                data = await self._transport.receive()
            except TransportBroken:
                data = b""
            if self._header is not None:
                found = self._greeted(data)
                if found is None:
                    continue
                data = found
            connection = self._connection
            with contained("connection failed", client=self._name, then=partial(_give_up, connection)):
                connection.feed(data, trio.current_time())
            self._log_unanswered()
            self._has_news.set()
            while len(connection.output) > MAX_UNSENT and not connection.is_over:
                self._has_room = trio.Event()
                await self._has_room.wait()

    def _greeted(self, data: bytes) -> bytes | None:
        """Take bytes of the protocol header; return all bytes once it is complete, None before."""
        assert self._header is not None
        self._header += data
        headers = [dialect.header for dialect in DIALECTS.values()]
        if data and any(each.startswith(self._header) and each != self._header for each in headers):
            return None
        header, self._header = self._header, None
        self._connection = self._server.new_connection(header)
        return header

    def _log_unanswered(self) -> None:
        if self._connection.is_foreign:
            known = " or ".join(sorted(self._server.protocols))
            reason = f"the client does not speak AMQP {known}, which is what the recording has"
            logger().warning("refused", client=self._name, reason=reason)
        for text in self._connection.notes.unanswered[self._logged :]:
            logger().warning("no answer", client=self._name, reason=text)
        self._logged = len(self._connection.notes.unanswered)

    async def _send(self) -> None:
        """Call `tick` and send the output, as they are due, until the connection is over."""
        while True:
            connection = self._connection
            self._has_news = trio.Event()
            with contained("connection failed", client=self._name, then=partial(_give_up, connection)):
                connection.tick(trio.current_time())
            data = memoryview(connection.take_output())
            self._has_room.set()
            try:
                for start in range(0, len(data), SLICE):
                    with trio.move_on_after(SEND_TIME) as scope:
                        await self._transport.send(data[start : start + SLICE])
                    if scope.cancelled_caught:
                        connection.is_cut = True
                        return
            except TransportBroken:
                return
            if data or self._has_news.is_set():
                continue
            if connection.is_over:
                return
            with trio.move_on_at(connection.wake_at):
                await self._has_news.wait()


def _give_up(connection: AnyMock, error: Exception) -> None:
    """Cut a client's connection after an internal error, which affects this client only."""
    connection.is_over = connection.is_cut = True
