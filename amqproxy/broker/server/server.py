"""The trio shell: accepts clients, and gives each an `ConnectionTask`."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv6Address, ip_address
from itertools import count
from pathlib import Path

import trio

from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.connection_log import ConnectionLog
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.broker.server.connection_task import ConnectionTask
from amqproxy.broker.server.send_scheduler import SendScheduler
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.broker.server.timer_task import TimerTask
from amqproxy.broker.server.token_logins import TokenLogins
from amqproxy.configuration.values import join_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, kept_up, report, supervised
from amqproxy.pump.tls_records import bound_reads
from amqproxy.sockets.certificate import Naming, distinguished_name
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken, plain_socket
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap

MOST_READ = 512 * 1024
"""Maximum bytes read from one client before the others have their turn: a few milliseconds of work."""

TLS_HANDSHAKE_TIME = 5.0
"""Time limit of a client's TLS handshake in seconds."""

BACKLOG = 1024
"""Clients that may wait to be accepted."""

BREATHER = 0.1
"""Seconds to wait when the system has no file descriptor left for another client."""

SHUTDOWN = "broker forced connection closure with reason 'shutdown'"
"""RabbitMQ's reply text when it is stopped."""


class BrokerServer:
    """Server of all clients of one broker, from listeners and from within the process; `run` must be running.

    `most_connections` are served at a time; further ones are closed at once. `naming` reads the user from a client's
    certificate. `directory` is the place whose free disk space is checked. `tap` is shown the traffic of later
    connections; with `metrics`, which count the traffic, also that of connections open when it is applied. `served` has
    the connections by their numbers.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        most_connections: int | None = None,
        naming: Naming = distinguished_name,
        directory: Path | None = None,
        tap: Tap | None = None,
    ) -> None:
        self.broker = broker
        self.tap = tap
        self.metrics: Metrics | None = None
        self.tokens: TokenLogins | None = None
        """Logins by OAuth 2 tokens, if clients may log in so."""
        self.served: dict[int, ServedConnection] = {}
        self._numbers = count(1)
        self._log = ConnectionLog(trio.current_time)
        broker.events.on_failure = report
        broker.events.on_log = self._log.write
        self._most_connections = most_connections
        self._naming = naming
        broker.work.quantum.limit(clock=time.perf_counter)
        self._send_scheduler = SendScheduler(broker.work.quantum)
        self._timer_task = TimerTask(broker, self._send_scheduler, directory)
        self._connection_tasks: set[ConnectionTask] = set()
        self._clients = 0
        self._accepting: list[trio.CancelScope] = []
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve clients, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(kept_up, "time not kept", self._timer_task.run)
            self._nursery.start_soon(kept_up, "sending failed", self._send_scheduler.run)
            self._nursery.start_soon(kept_up, "logging failed", self._log.run)
            task_status.started()

    async def close(self, timeout: float) -> None:
        """Stop accepting, and close all connections with 320, as RabbitMQ does when it is stopped.

        Returns when all have answered, or after `timeout` seconds.
        """
        for scope in self._accepting:
            scope.cancel()
        logger().info("closing", connections=len(self.broker.connections), timeout=timeout)
        with contained("connections not closed"):
            self.broker.close_connections(SHUTDOWN, current_time())
        with trio.move_on_after(timeout):
            for connection_task in list(self._connection_tasks):
                await connection_task.is_ended.wait()

    # --- clients

    def apply_tap(self, tap: Tap | None) -> None:
        """Show further traffic to `tap`, or to none; this includes existing connections that have a `ConnectionTap`."""
        self.tap = tap
        for each in self.served.values():
            if each.tap is not None:
                each.tap.show_to(tap)

    def listen(self, listener: trio.SocketListener, context: ssl.SSLContext | None = None) -> None:
        """Accept clients, over TLS where there is a context. The listener is closed in the end."""
        assert self._nursery is not None
        self._nursery.start_soon(self._accept, listener, context)

    def open(self, user: User | None = None, name: str = "") -> socket.socket:
        """Open a connection within this process and return the client's non-blocking socket.

        With a `user`, that is the client's login, whatever the client sends. The connection is listed by its `name`.
        """
        assert self._nursery is not None
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        serve = partial(self.serve, _transport(theirs), user=user, name=name)
        self._nursery.start_soon(supervised, "connection failed", serve)
        return ours

    async def serve(
        self,
        transport: Transport,
        *,
        is_loopback: bool = True,
        name: str = "",
        certificate_name: str | None = None,
        user: User | None = None,
    ) -> None:
        """Serve the client at the other end of `transport` until either side closes it; see `Amqp091Connection`."""
        assert self._nursery is not None
        number, is_tls = next(self._numbers), certificate_name is not None
        tap = None
        if self.tap is not None or self.metrics is not None:
            tap = ConnectionTap(self.tap, number, name, is_tls=is_tls, metrics=self.metrics)
        connection_task = ConnectionTask(
            self.broker,
            self._send_scheduler,
            transport,
            self._nursery,
            is_loopback=is_loopback,
            name=name,
            certificate_name=certificate_name,
            user=user,
            tap=tap,
        )
        if tap is not None:
            tap.client = lambda: connection_task.connection
        self._connection_tasks.add(connection_task)
        self.served[number] = ServedConnection(
            number, connection_task.first, time.time(), certificate_name, tap, lambda: connection_task.connection
        )
        try:
            with contained("connection failed", client=name):
                await connection_task.run()
        finally:
            self._connection_tasks.remove(connection_task)
            del self.served[number]

    @property
    def _occupied(self) -> int:
        """The number of connections that count towards the limit; refused logins that are kept open do not."""
        return self._clients - len(self.broker.refused)

    async def _accept(self, listener: trio.SocketListener, context: ssl.SSLContext | None) -> None:
        assert self._nursery is not None
        async with listener:
            with trio.CancelScope() as scope:
                self._accepting.append(scope)
                while True:
                    is_accepted = False
                    with contained("cannot accept"):
                        is_accepted = await self._accept_one(listener, context)
                    if not is_accepted:
                        await trio.sleep(BREATHER)

    async def _accept_one(self, listener: trio.SocketListener, context: ssl.SSLContext | None) -> bool:
        """Wait for the next client, and serve it; False when the system has no resources for it."""
        assert self._nursery is not None
        try:
            stream = await listener.accept()
        except OSError as error:
            logger().error("cannot accept", reason=error.strerror)
            return False
        if self._most_connections is not None and self._occupied >= self._most_connections:
            self._log.write("warning", "connection refused", "", limit=self._most_connections)
            if self.metrics is not None:
                self.metrics.refused.labels("limit").inc()
            await trio.aclose_forcefully(stream)
        else:
            self._clients += 1
            if self.metrics is not None:
                self.metrics.accepted.inc()
            self._nursery.start_soon(supervised, "connection failed", self._welcome, stream, context)
        return True

    async def _welcome(self, stream: trio.SocketStream, context: ssl.SSLContext | None) -> None:
        """Serve one client from its first byte to its last."""
        try:
            with contained("connection failed"):
                await self._serve(stream, context)
        finally:
            self._clients -= 1

    async def _serve(self, stream: trio.SocketStream, context: ssl.SSLContext | None) -> None:
        try:
            remote, local = stream.socket.getpeername()[:2], stream.socket.getsockname()[:2]
        except OSError:  # it has gone already
            await trio.aclose_forcefully(stream)
            return
        name = f"{join_address(*remote)} -> {join_address(*local)}"
        is_loopback = _is_loopback(remote[0])
        self._log.write("debug", "client connected", remote[0], client=name)
        if context is None:
            await self.serve(_transport(plain_socket(stream)), is_loopback=is_loopback, name=name)
            return
        tls = secured(plain_socket(stream), context, server_side=True)
        transport = _transport(tls)
        try:
            await transport.secure(TLS_HANDSHAKE_TIME)
        except TransportBroken as error:
            self._log.write("warning", "TLS handshake failed", remote[0], client=name, reason=str(error))
            return
        bound_reads(tls)
        certificate = tls.getpeercert()
        certificate_name = (self._naming(certificate) if certificate else None) or ""
        await self.serve(transport, is_loopback=is_loopback, name=name, certificate_name=certificate_name)


@asynccontextmanager
async def serve(
    broker: Broker, host: str = "127.0.0.1", port: int = 0, *, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve `broker` on HOST:PORT for the duration of the block, over TLS with a context; yields the port."""
    server = BrokerServer(broker)
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        for listener in listeners:
            server.listen(listener, context)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def _transport(sock: socket.socket) -> SocketTransport:
    return SocketTransport(sock, most_read=MOST_READ, turn=1)


def _is_loopback(host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
