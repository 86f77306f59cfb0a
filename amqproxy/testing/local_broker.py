"""The integrated broker on a loopback port, in a separate thread."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Literal, TypeVar

import trio

from amqproxy import __version__
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.machine_resources import disk_free
from amqproxy.broker.server.server import BACKLOG, BrokerServer
from amqproxy.configuration.config import BrokerConfig, BrokerLimits
from amqproxy.configuration.values import join_address
from amqproxy.process.trio_thread import TrioThread

Answer = TypeVar("Answer")
Version = Literal["3.10", "4.0", "4.3"]

HOST = "127.0.0.1"

CLOSE_TIMEOUT = 0.2
"""Time for clients to answer connection.close at a restart, in seconds."""

SHARED_MEMORY = Path("/dev/shm")
"""Directory of files in memory on Linux, which avoids waiting for a disk."""

ROOM = 256 * 1024 * 1024
"""Minimum free space there, in bytes."""

_CAUSE = "block"


class LocalBroker:
    """A broker while its `with` block runs, on `host` and `port`; the login is guest, guest.

    Durable state is kept in a temporary directory, in memory if possible, so that it survives a `restart`. `profile` is
    the RabbitMQ version whose behaviour the broker has.
    """

    def __init__(self, profile: Version | None = None) -> None:
        self.profile: Version = profile or BrokerConfig().profile
        self.host = HOST
        self.port = 0
        self._thread: TrioThread[BrokerServer] | None = None
        self._is_restarting = False
        self._data: TemporaryDirectory[str] | None = None

    def __enter__(self) -> LocalBroker:
        self._data = TemporaryDirectory(prefix="amqproxy-", dir=_in_memory())
        try:
            self._start()
        except BaseException:
            self._data.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._data is not None
        try:
            if self._thread is not None:
                self._thread.stop()
        finally:
            self._thread = None
            self._data.cleanup()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return join_address(self.host, self.port)

    @property
    def url(self) -> str:
        """URL for clients, as the user guest."""
        return f"amqp://guest:guest@{self.address}/%2F"

    def restart(self) -> None:
        """Stop as RabbitMQ does, and start again on the same port with the durable state.

        Clients get a connection.close with 320. Blocking ends.
        """
        thread = self._running()
        self._is_restarting = True
        try:
            thread.stop()
            self._thread = None
        finally:
            self._is_restarting = False
        self._start()

    def block(self) -> AbstractContextManager[object]:
        """Block publishing connections, as in a memory alarm: they get connection.blocked, and are not read.

        The block lasts until `unblock`, or until the end of the `with` block of this context manager.
        """
        self.do(lambda broker, now: broker.set_alarm("memory", True, now, cause=_CAUSE))
        ending = ExitStack()
        ending.callback(self.unblock)
        return ending

    def unblock(self) -> None:
        """Resume reading: blocked clients get connection.unblocked."""
        self.do(lambda broker, now: broker.set_alarm("memory", False, now, cause=_CAUSE))

    def do(self, action: Callable[[Broker, float], Answer]) -> Answer:
        """Call `action` with the broker's model and the time, and return its result; nothing else runs there
        meanwhile.
        """
        thread = self._running()
        return thread.call(lambda: action(thread.value.broker, current_time()))

    def _running(self) -> TrioThread[BrokerServer]:
        if self._thread is None:
            raise RuntimeError("the broker is not running")
        return self._thread

    def _start(self) -> None:
        thread = TrioThread(self._served, "amqproxy broker")
        thread.start()
        self._thread = thread

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[BrokerServer]:
        assert self._data is not None
        limits = BrokerLimits(disk_free=0)
        settings = BrokerConfig(data=self._data.name, limits=limits, profile=self.profile)
        async with configured(settings, __version__) as server:
            for listener in await trio.open_tcp_listeners(self.port, host=self.host, backlog=BACKLOG):
                self.port = listener.socket.getsockname()[1]
                server.listen(listener)
            yield server
            if self._is_restarting:
                await server.close(CLOSE_TIMEOUT)


def _in_memory() -> str | None:
    free = disk_free(SHARED_MEMORY)
    is_usable = free is not None and free >= ROOM and os.access(SHARED_MEMORY, os.W_OK)
    return str(SHARED_MEMORY) if is_usable else None
