"""The composition root: one nursery, in which everything that runs is wired together."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import prometheus_client
import structlog
import trio

from amqproxy import __version__
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions import load
from amqproxy.broker.keeping import kept
from amqproxy.broker.resources import usual_memory_limit
from amqproxy.broker.server import Server as BrokerServer
from amqproxy.broker.server import serve
from amqproxy.broker.store import StoreError
from amqproxy.broker.time_of_day import current_time
from amqproxy.config import Config, ConfigError, Upstream, join_address, split_address
from amqproxy.proxy.listener import Server, listen
from amqproxy.proxy.upstream import Dialer
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.printer import Printer
from amqproxy.taps.record import Record

PATIENCE = 1.0
"""Seconds that the last records may take to be printed."""


class Unavailable(Exception):
    """An address of the config cannot be had; the text says which, and why."""


async def run(config: Config, render: Callable[[Record], str] | None = None) -> None:
    """Run the proxy until SIGTERM or SIGINT, then drain it.

    With `render`, every record is printed on standard output as that makes it; when whoever reads
    it goes away, that drains the proxy too, and is raised as `BrokenPipeError`. A second signal ends
    it at once, with `KeyboardInterrupt`. `ConfigError` when a file of the config is not right,
    `Unavailable` when an address cannot be had.
    """
    metrics = Metrics()
    contexts = [server_context(listener.tls) if listener.tls else None for listener in config.listen]
    integrated = BrokerServer(_broker()) if config.upstream == "broker" else None
    dial = _dialer(config, integrated)
    printing = _Printing(render, config.limits.print_backlog, metrics) if render else None
    log = structlog.get_logger()
    upstream = config.upstream if isinstance(config.upstream, str) else config.upstream.address
    drain = trio.Event()
    is_done = False
    async with AsyncExitStack() as stack:
        stack.enter_context(_metrics_endpoint(config, metrics))
        signals = stack.enter_context(trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT))
        listeners = []
        for listener, context in zip(config.listen, contexts, strict=True):
            for opened in await _listen(listener.address):
                await stack.enter_async_context(opened)
                address = join_address(*opened.socket.getsockname()[:2])
                log.info("listening", address=address, tls=context is not None, upstream=upstream)
                listeners.append((opened, context))
        server = Server(dial, config.limits, metrics, printing.printer if printing else None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_obey, signals, drain, nursery.cancel_scope)
            if integrated:
                await nursery.start(integrated.run)
            if printing:
                nursery.start_soon(printing.run, drain)
            await server.serve(listeners, drain)
            if printing:
                await printing.finish()
            is_done = True
            nursery.cancel_scope.cancel()
    log.info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    if printing and printing.is_unheard:
        raise BrokenPipeError


async def run_broker(address: str, definitions: Path | None = None, data: Path | None = None) -> None:
    """Run the broker alone, on HOST:PORT, until SIGTERM or SIGINT. `Unavailable` when that cannot be had.

    `definitions` is a definitions.json to begin with; `ConfigError` when it is none. What is durable is kept in the
    directory `data`, if that is given.
    """
    log = structlog.get_logger()
    broker = _broker()
    host, port = split_address(address)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        try:
            async with AsyncExitStack() as stack:
                remembrance = None if data is None else await stack.enter_async_context(kept(broker, data))
                if definitions is not None:
                    _define(broker, definitions)
                if remembrance is not None:
                    remembrance.compare()
                bound = await stack.enter_async_context(serve(broker, host, port))
                log.info("listening", address=join_address(host, bound))
                await anext(signals)
        except StoreError as error:
            raise Unavailable(str(error)) from None
        except OSError as error:
            raise Unavailable(f"cannot listen on {address}: {error.strerror or error}") from None
    log.info("stopped")


def _broker() -> Broker:
    return Broker(__version__, memory_limit=usual_memory_limit())


def _define(broker: Broker, file: Path) -> None:
    try:
        definitions = json.loads(file.read_bytes())
        if not isinstance(definitions, dict):
            raise ConfigError(f"{file}: not an object, as RabbitMQ exports it")
        load(broker, definitions, current_time())
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _dialer(config: Config, integrated: BrokerServer | None) -> Callable[[], Awaitable[Transport]]:
    """What opens a session's way to the broker."""
    if isinstance(config.upstream, Upstream):
        return Dialer(config.upstream, config.limits.connect_timeout)
    assert integrated is not None

    async def dial() -> Transport:
        return SocketTransport(integrated.open())

    return dial


async def _listen(address: str) -> list[trio.SocketListener]:
    try:
        return await listen(address)
    except OSError as error:
        raise Unavailable(f"cannot listen on {address}: {error.strerror or error}") from None


async def _obey(signals: AsyncIterator[int], drain: trio.Event, scope: trio.CancelScope) -> None:
    """Drain at the first signal, and end everything at the second."""
    async for _ in signals:
        if drain.is_set():
            scope.cancel()
        drain.set()


@contextmanager
def _metrics_endpoint(config: Config, metrics: Metrics) -> Iterator[None]:
    """Serve /metrics, in a thread of prometheus_client's, if the config has it."""
    if config.metrics is None:
        yield
        return
    host, port = split_address(config.metrics.address)
    try:
        server, thread = prometheus_client.start_http_server(port, host or "0.0.0.0", metrics.registry)
    except OSError as error:
        raise Unavailable(f"cannot serve metrics on {config.metrics.address}: {error.strerror or error}") from None
    structlog.get_logger().info("metrics", address=join_address(host, server.server_port), path="/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Printing:
    """Carries a `Printer`'s records to standard output, in a thread: a pager must not stop the proxy."""

    def __init__(self, render: Callable[[Record], str], backlog: int, metrics: Metrics) -> None:
        self.printer = Printer(backlog, metrics, self._wake)
        self.is_unheard = False
        self._render = render
        self._something = trio.Event()
        self._lock = trio.Lock()

    def _wake(self) -> None:
        self._something.set()

    async def run(self, drain: trio.Event) -> None:
        """Print until cancelled; a reader who has gone away ends the proxy, quietly."""
        while not self.is_unheard:
            await self._something.wait()
            self._something = trio.Event()
            await self._flush()
        drain.set()

    async def finish(self) -> None:
        """Print what waits, unless the reader has stopped reading."""
        with trio.move_on_after(PATIENCE):
            await self._flush()

    async def _flush(self) -> None:
        async with self._lock:
            records, dropped = self.printer.take()
            if self.is_unheard:
                return
            if dropped:
                structlog.get_logger().warning("records not printed", count=dropped)
            try:
                # A write that blocks cannot be cancelled; its thread is left to the end of the process.
                await trio.to_thread.run_sync(_print, self._render, records, abandon_on_cancel=True)
            except BrokenPipeError:
                self.is_unheard = True
            except OSError as error:  # a full disk, say: what it does not take is lost, and no client's trouble
                structlog.get_logger().error("records not printed", count=len(records), reason=error.strerror)


def _print(render: Callable[[Record], str], records: Iterable[Record]) -> None:
    """Write to the descriptor itself: a thread stuck in `sys.stdout` would hold its lock at our exit."""
    octets = "".join([f"{render(record)}\n" for record in records]).encode("utf-8", "backslashreplace")
    output = sys.stdout.fileno()
    while octets:
        try:
            octets = octets[os.write(output, octets) :]
        except BlockingIOError:  # whoever gave us the descriptor made it so
            select.select([], [output], [])
