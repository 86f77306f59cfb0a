"""Accepts clients, and gives each a `Session`."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from itertools import count

import structlog
import trio

from amqproxy.config import Limits, join_address, split_address
from amqproxy.proxy import watchdog
from amqproxy.proxy.session import Session, Watcher
from amqproxy.proxy.transport import SocketTransport, StreamTransport, Transport
from amqproxy.proxy.upstream import plain_socket
from amqproxy.taps.metrics import Metrics

BACKLOG = 1024
"""Clients that may wait to be accepted."""

BREATHER = 0.1
"""Seconds to wait when the system has no file descriptor left for another client."""


class Server:
    """All sessions of one proxy, and the listeners that begin them."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[Transport]],
        limits: Limits,
        metrics: Metrics,
        watcher: Watcher | None = None,
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self._dial = dial
        self._limits = limits
        self._metrics = metrics
        self._watcher = watcher
        self._numbers = count(1)
        self._log = structlog.get_logger()
        self._accepting: list[trio.CancelScope] = []
        self._is_empty = trio.Event()

    async def serve(
        self, listeners: list[tuple[trio.SocketListener, ssl.SSLContext | None]], drain: trio.Event
    ) -> None:
        """Accept clients until `drain` is set; then end every session in good order, and return."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watchdog.watch, self.sessions)
            async with trio.open_nursery() as accepting:
                for listener, context in listeners:
                    accepting.start_soon(self._accept, listener, context, nursery)
                await drain.wait()
                accepting.cancel_scope.cancel()
            for listener, _ in listeners:
                await listener.aclose()
            await self._drain()
            nursery.cancel_scope.cancel()

    async def _drain(self) -> None:
        self._log.info("draining", sessions=len(self.sessions), timeout=self._limits.drain_timeout)
        for session in list(self.sessions.values()):
            session.drain()
        with trio.move_on_after(self._limits.drain_timeout):
            while self.sessions:
                self._is_empty = trio.Event()
                await self._is_empty.wait()
        for session in list(self.sessions.values()):
            session.abort(f"not drained within {self._limits.drain_timeout:g} s")
        with trio.move_on_after(self._limits.close_timeout):
            while self.sessions:
                self._is_empty = trio.Event()
                await self._is_empty.wait()

    async def _accept(
        self, listener: trio.SocketListener, context: ssl.SSLContext | None, nursery: trio.Nursery
    ) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                self._metrics.refused.labels("resources").inc()
                self._log.error("cannot accept", reason=error.strerror)
                await trio.sleep(BREATHER)
                continue
            if len(self.sessions) >= self._limits.connections:
                self._metrics.refused.labels("limit").inc()
                self._log.warning("connection refused", reason=f"limits.connections is {self._limits.connections}")
                await trio.aclose_forcefully(stream)
                continue
            nursery.start_soon(self._serve, stream, context)

    async def _serve(self, stream: trio.SocketStream, context: ssl.SSLContext | None) -> None:
        try:
            remote, local = stream.socket.getpeername(), stream.socket.getsockname()
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        name = f"{join_address(*remote[:2])}-{join_address(*local[:2])}"
        transport: Transport
        if context is None:
            transport = SocketTransport(plain_socket(stream))
        else:
            transport = StreamTransport(trio.SSLStream(stream, context, server_side=True))
        session = Session(next(self._numbers), transport, name, self._dial, self._limits, self._metrics, self._watcher)
        self.sessions[session.number] = session
        self._metrics.accepted.inc()
        self._metrics.connections.inc()
        try:
            await session.run()
        finally:
            del self.sessions[session.number]
            self._metrics.connections.dec()
            if not self.sessions:
                self._is_empty.set()


async def listen(address: str) -> list[trio.SocketListener]:
    """Listeners on HOST:PORT, one an address of the host. `OSError` when it cannot be had."""
    host, port = split_address(address)
    return await trio.open_tcp_listeners(port, host=host or None, backlog=BACKLOG)
