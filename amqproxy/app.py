"""The composition root: one nursery, in which everything that runs is wired together."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import prometheus_client
import structlog
import trio

from amqproxy.config import Config, ConfigError, join_address, split_address
from amqproxy.proxy.listener import Server, listen
from amqproxy.proxy.tls import server_context
from amqproxy.proxy.upstream import Dialer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.printer import Printer
from amqproxy.taps.record import Record


async def run(config: Config, render: Callable[[Record], str] | None = None) -> None:
    """Run the proxy until SIGTERM or SIGINT, then drain it. A second signal ends it at once.

    With `render`, every record is printed on standard output as that makes it. `ConfigError` when
    a file or an address of the config cannot be had.
    """
    metrics = Metrics()
    contexts = [server_context(listener.tls) if listener.tls else None for listener in config.listen]
    dial = Dialer(config.upstream, config.limits.connect_timeout)
    printing = _Printing(render, config.limits.print_backlog, metrics) if render else None
    log = structlog.get_logger()
    drain = trio.Event()
    with _metrics_endpoint(config, metrics):
        listeners = []
        for listener, context in zip(config.listen, contexts, strict=True):
            try:
                opened = await listen(listener.address)
            except OSError as error:
                raise ConfigError(f"cannot listen on {listener.address}: {error.strerror or error}") from None
            for one in opened:
                address = join_address(*one.socket.getsockname()[:2])
                log.info("listening", address=address, tls=context is not None, upstream=dial.address)
                listeners.append((one, context))
        server = Server(dial, config.limits, metrics, printing.printer if printing else None)
        async with trio.open_nursery() as nursery:
            await nursery.start(_await_signals, drain, nursery.cancel_scope)
            if printing:
                nursery.start_soon(printing.run, drain)
            await server.serve(listeners, drain)
            if printing:
                await printing.flush()
            nursery.cancel_scope.cancel()
    log.info("stopped")


async def _await_signals(
    drain: trio.Event,
    scope: trio.CancelScope,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
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
        raise ConfigError(f"cannot serve metrics on {config.metrics.address}: {error.strerror or error}") from None
    structlog.get_logger().info("metrics", address=join_address(host, server.server_port), path="/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Printing:
    """Carries a `Printer`'s lines to standard output, in a thread: a pager must not stop the proxy."""

    def __init__(self, render: Callable[[Record], str], backlog: int, metrics: Metrics) -> None:
        self.printer = Printer(render, backlog, metrics, self._wake)
        self._something = trio.Event()

    def _wake(self) -> None:
        self._something.set()

    async def run(self, drain: trio.Event) -> None:
        """Print until cancelled; a reader who has gone away ends the proxy, quietly."""
        try:
            while True:
                await self._something.wait()
                self._something = trio.Event()
                await self.flush()
        except BrokenPipeError:
            drain.set()

    async def flush(self) -> None:
        """Print what waits."""
        lines, dropped = self.printer.take()
        if dropped:
            structlog.get_logger().warning("records not printed", count=dropped)
        if lines:
            await trio.to_thread.run_sync(_write, lines)


def _write(lines: str) -> None:
    sys.stdout.write(lines)
    sys.stdout.flush()
