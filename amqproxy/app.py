"""The composition root: one nursery, in which everything that runs is wired together.

Somewhat long, as the one place that knows all parts, and in which order they begin and end.
"""

from __future__ import annotations

import gc
import random
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from amqproxy import __version__
from amqproxy.broker import broker as integrated
from amqproxy.broker.definitions import definitions_json
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.persistence import persisted
from amqproxy.broker.server.server import BrokerServer as BrokerServer
from amqproxy.broker.storage.data_directory import StoreError
from amqproxy.broker.storage.store import NAME
from amqproxy.config import (
    BrokerConfig,
    Config,
    ConfigError,
    Limits,
    ListenerConfig,
    UpstreamConfig,
    join_address,
    split_address,
)
from amqproxy.control.hub import Hub
from amqproxy.control.request_handler import NotReloaded, RequestHandler
from amqproxy.control.rule_control import RuleControl
from amqproxy.control.service import ControlService
from amqproxy.control.statistics import Statistics
from amqproxy.control.unix_socket import SocketUnavailable, opened
from amqproxy.log import dropped, logger
from amqproxy.printing import Printing, PrintSettings
from amqproxy.proxy.listener import ProxyServer, listen
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.upstream import Dialer
from amqproxy.reload import Reloader, mirror_upstreams, renew_certificates
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.supervision import contained, kept_up, report, supervised
from amqproxy.taps import endpoint
from amqproxy.taps.metrics import Metrics, RuleCounts
from amqproxy.taps.object_tap import ObjectMetrics, ObjectTap
from amqproxy.taps.topology.observed_topology import ObservedTopology

if TYPE_CHECKING:
    from amqproxy.telemetry.telemetry import Telemetry  # imported where it is asked for: it needs an extra

BROKER_ADDRESS = "127.0.0.1:5672"
"""Where the broker listens by default."""

COLLECT_AFTER = (5_000, 1, 1_000_000)
"""When Python is to look for garbage by itself: often among what is new, which takes a millisecond or two, and never
among all: messages that wait, and open connections, are so many things, and none of them is garbage."""

COLLECT_EVERY = 60.0
"""Seconds between two looks among all, at least."""

COLLECT_SHARE = 1e-4
"""Of the time: what these looks may take."""

SWITCH_INTERVAL = 0.0005
"""Seconds that the broker may keep the interpreter from the thread that writes to the disk."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the program. Until it listens, they do so at once, as Python and the system have it."""

Listeners = list[tuple[trio.SocketListener, ssl.SSLContext | None]]


RELIEF_INTERVAL = 1.0
"""Seconds between two looks at how much the traces for metrics take."""


class AddressUnavailable(Exception):
    """An address in the config cannot be used; the text gives the address and the reason."""


async def run(
    config: Config,
    reread: Callable[[], Config] | None = None,
    printed: PrintSettings | None = None,
    directory: Path = Path(),
) -> None:
    """Run the proxy until SIGTERM or SIGINT, then drain it. On SIGHUP, take over what `reread` finds: see `reload`.

    Files that rules name, which come through the control socket, are found from `directory`.

    With `printed`, what passes is printed on standard output. When the reader of that goes away, printing ends; with
    `ends_with_reader`, that drains the proxy too, and is raised as `BrokenPipeError`. A second signal ends it at once,
    with `KeyboardInterrupt`, and one that comes before it listens ends the process. `ConfigError` when a file of the
    config is not right, `AddressUnavailable` when an address cannot be had.
    """
    started = time.time()
    metrics = Metrics(counts_messages=config.metrics is None or config.metrics.messages)
    metrics.count_log(dropped)
    printing = Printing(printed, config.limits, metrics) if printed else None
    log = logger()
    drain = trio.Event()
    is_done = False

    def end_printing() -> None:
        _log_end_of_printing()
        if printed and printed.ends_with_reader:
            drain.set()

    async with AsyncExitStack() as stack:
        hangups = stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
        is_listening = threading.Event()
        stack.enter_context(_metrics_endpoint(config, metrics, lambda: is_listening.is_set() and not drain.is_set()))
        control = stack.enter_context(_control_socket(config))
        listeners = await _listeners(config.listen, stack)
        broker: BrokerServer | None = None
        own_listeners: Listeners = []
        if config.upstream == "broker":
            broker, own_listeners = await stack.enter_async_context(_broker(config.broker))
        dial = _dialer(config, broker)
        mirrors, upstreams = _mirrors(config, dial, metrics)
        if config.seed is not None:
            random.seed(config.seed)
        upstream = config.upstream if isinstance(config.upstream, str) else config.upstream.address
        server = ProxyServer(
            dial,
            config.limits,
            metrics,
            printing.tap if printing else None,
            rules=RuleSet(config.rules),
            upstream=upstream,
            mirrors=mirrors,
            topology=ObservedTopology() if control else None,
        )
        hub = Hub(printing.tap if printing else None, server.apply_tap)
        telemetry = _telemetry(config, metrics)
        if telemetry:
            hub.add(telemetry.tap)
            telemetry.start()
        object_tap = _object_tap(config, metrics)
        if object_tap:
            hub.add(object_tap)
        metrics.count_rules(lambda: _rule_counts(server))
        signals = stack.enter_context(trio.open_signal_receiver(*ENDING))
        _announce(own_listeners, data=config.broker.data)
        _announce(listeners, upstream=upstream)
        is_listening.set()

        reloader = Reloader(
            config,
            reread,
            server,
            mirrors,
            upstreams,
            contexts=_contexts([*listeners, *own_listeners]),
            dialers=[dial] if isinstance(dial, Dialer) else [],
        )

        def reload() -> None:
            with suppress(NotReloaded):  # which has been logged
                reloader.reload()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_handle_signals, signals, drain, nursery.cancel_scope)
            nursery.start_soon(_at_hangup, hangups, reload)
            if control:
                statistics = Statistics(
                    metrics.registry, lambda: (server.lag.last, server.lag.most), started=started, time=time.time
                )
                handler = RequestHandler(
                    server,
                    reloader.reload,
                    now=trio.current_time,
                    time=time.time,
                    statistics=statistics,
                    rules=RuleControl(server, lambda: reloader.upstreams, directory),
                )
                service = ControlService(handler, hub, metrics, ring=config.control.ring if config.control else 0)
                server.on_hold = service.note_hold
                nursery.start_soon(service.run, control)
            await nursery.start(mirrors.run)
            keep_pauses_short(nursery)
            if printing:
                nursery.start_soon(supervised, "printing failed", printing.run, end_printing)
                nursery.start_soon(supervised, "printing failed", printing.report_losses)
            if telemetry:
                nursery.start_soon(kept_up, "telemetry failed", telemetry.run)
            if object_tap:
                nursery.start_soon(kept_up, "traces not relieved", _keep_bounded, object_tap)
            await server.serve(listeners, drain)
            if telemetry:
                await supervised("telemetry not finished", telemetry.finish)
            if broker:
                await supervised("broker not closed", broker.close, config.broker.limits.close_timeout)
            if printing:
                await supervised("printing not finished", printing.finish)
            is_done = True
            nursery.cancel_scope.cancel()
    log.info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    if printed and printed.ends_with_reader and printing and printing.is_unheard:
        raise BrokenPipeError


async def run_broker(config: BrokerConfig, limits: Limits | None = None, printed: PrintSettings | None = None) -> None:
    """Run the broker alone until SIGTERM or SIGINT; then close its connections, and return. On SIGHUP, read the
    certificates again. With `printed`, what passes is printed within `limits`, as by `run`.

    A second signal ends it at once, with `KeyboardInterrupt`, and one that comes before it listens ends the process.
    `ConfigError` when a file that the config names is wrong, `AddressUnavailable` when an address or the data directory
    cannot be used.
    """
    if not config.listen:
        config = msgspec.structs.replace(config, listen=(ListenerConfig(address=BROKER_ADDRESS),))
    drain = trio.Event()
    is_done = False
    printing = Printing(printed, limits or Limits(), Metrics()) if printed else None

    def end_printing() -> None:
        _log_end_of_printing()
        if printed and printed.ends_with_reader:
            drain.set()

    with trio.open_signal_receiver(signal.SIGHUP) as hangups:
        async with _broker(config) as (server, listeners), trio.open_nursery() as nursery:
            if printing:
                server.tap = printing.tap
                nursery.start_soon(supervised, "printing failed", printing.run, end_printing)
                nursery.start_soon(supervised, "printing failed", printing.report_losses)
            with trio.open_signal_receiver(*ENDING) as signals:
                _announce(listeners, data=config.data)
                nursery.start_soon(_handle_signals, signals, drain, nursery.cancel_scope)
                keep_pauses_short(nursery)
                nursery.start_soon(_at_hangup, hangups, lambda: renew_certificates(_contexts(listeners)))
                await drain.wait()
                await supervised("broker not closed", server.close, config.limits.close_timeout)
                if printing:
                    await supervised("printing not finished", printing.finish)
                is_done = True
                nursery.cancel_scope.cancel()
    logger().info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    if printed and printed.ends_with_reader and printing and printing.is_unheard:
        raise BrokenPipeError


def keep_pauses_short(nursery: trio.Nursery) -> None:
    """Set the interpreter up for serving many connections, once all is loaded.

    Garbage is looked for among what is new; what there is now is never looked at again, and all else in a task of
    `nursery`, seldom.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_INTERVAL)
    nursery.start_soon(collect_garbage)


async def collect_garbage(
    collect: Callable[[], object] = gc.collect, clock: Callable[[], float] = time.monotonic
) -> None:
    """Look for garbage among all there is now and then, the more seldom the longer it takes, until cancelled."""
    pause = COLLECT_EVERY
    while True:
        await trio.sleep(pause)
        began = clock()
        collect()
        pause = max(COLLECT_EVERY, (clock() - began) / COLLECT_SHARE)


async def export(data: Path) -> dict[str, Any]:
    """The definitions that a broker has stored in the directory `data`. `AddressUnavailable` when it has none."""
    try:
        is_there = (data / NAME).is_file()
    except OSError as error:
        raise AddressUnavailable(f"{data} cannot be read: {error.strerror}") from None
    if not is_there:
        raise AddressUnavailable(f"{data} holds no broker's data: there is no {NAME} in it")
    broker = integrated.Broker(__version__)
    try:
        async with persisted(broker, data):
            return definitions_json.export(broker)
    except StoreError as error:
        raise AddressUnavailable(str(error)) from None


@asynccontextmanager
async def _broker(config: BrokerConfig) -> AsyncIterator[tuple[BrokerServer, Listeners]]:
    """The integrated broker, and its listeners where the config has them."""
    async with AsyncExitStack() as stack:
        listeners = await _listeners(config.listen, stack)
        try:
            server = await stack.enter_async_context(configured(config, __version__))
        except StoreError as error:
            raise AddressUnavailable(str(error)) from None
        for opened, context in listeners:
            server.listen(opened, context)
        yield server, listeners


async def _listeners(listeners: Iterable[ListenerConfig], stack: AsyncExitStack) -> Listeners:
    """All of them, open until `stack` is left. `ConfigError` or `AddressUnavailable` where one cannot be."""
    contexts = [(listener, server_context(listener.tls) if listener.tls else None) for listener in listeners]
    found = []
    for listener, context in contexts:
        try:
            opened = await listen(listener.address)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise AddressUnavailable(f"cannot listen on {listener.address}: {reason or error}") from None
        for each in opened:
            await stack.enter_async_context(each)
            found.append((each, context))
    return found


def _announce(listeners: Listeners, **fields: Any) -> None:
    """Log where we listen: from here on, signals drain."""
    for listener, context in listeners:
        address = join_address(*listener.socket.getsockname()[:2])
        logger().info("listening", address=address, tls=context is not None, **fields)


def _contexts(listeners: Listeners) -> list[ssl.SSLContext]:
    return [context for _, context in listeners if context is not None]


def _dialer(config: Config, broker: BrokerServer | None) -> Callable[[], Awaitable[Transport]]:
    """What opens a session's way to the broker."""
    if isinstance(config.upstream, UpstreamConfig):
        return Dialer(config.upstream, config.limits.connect_timeout)
    assert broker is not None

    async def dial() -> Transport:
        return SocketTransport(broker.open())

    return dial


def _telemetry(config: Config, metrics: Metrics) -> Telemetry | None:
    """What exports a span for each message, if that is configured. `ConfigError` when the extra is not installed."""
    if config.opentelemetry is None:
        return None
    try:
        from amqproxy.telemetry.telemetry import Telemetry
    except ImportError as error:
        raise ConfigError(f'opentelemetry: {error}: run `pip install "amqproxy[otel]"`') from None
    upstream = config.upstream if isinstance(config.upstream, str) else config.upstream.address
    telemetry = Telemetry(config.opentelemetry, config.limits, metrics, upstream=upstream)
    logger().info("opentelemetry", endpoint=config.opentelemetry.endpoint, sample=config.opentelemetry.sample)
    return telemetry


def _mirrors(
    config: Config, dial: Callable[[], Awaitable[Transport]], metrics: Metrics
) -> tuple[Mirrors, dict[str, Dialer]]:
    """What takes the copies that rules make, and its ways to the named upstreams. `ConfigError` when a password cannot
    be read."""
    dialers, logins = mirror_upstreams(config)
    for reason in DropReason:  # so that each is there, with 0, before the first is dropped
        metrics.copies_dropped.labels(str(reason))

    def count(reason: DropReason, copies: int) -> None:
        metrics.copies_dropped.labels(str(reason)).inc(copies)

    dials: dict[str | None, Callable[[], Awaitable[Transport]]] = {None: dial}
    dials.update(dialers)
    mirrors = Mirrors(dials, logins, config.limits.mirror_backlog, config.limits.mirror_memory, count)
    return mirrors, dialers


def _log_end_of_printing() -> None:
    logger().warning("printing ended", reason="the reader of standard output is gone")


async def _handle_signals(signals: AsyncIterator[int], drain: trio.Event, scope: trio.CancelScope) -> None:
    """Drain at the first signal, and end everything at the second."""
    async for _ in signals:
        if drain.is_set():
            scope.cancel()
        drain.set()


async def _at_hangup(hangups: AsyncIterator[int], reload: Callable[[], None]) -> None:
    """At each SIGHUP, read again what can be; what fails changes nothing."""
    async for _ in hangups:
        logger().info("reloading", reason="SIGHUP")
        with contained("reload failed"):
            reload()


def _rule_counts(server: ProxyServer) -> Mapping[str, RuleCounts]:
    """What is counted of rules, for a scrape; nothing where that fails, so that the other metrics are still shown."""
    counts: Mapping[str, RuleCounts] = {}
    with contained("rules not counted"):
        counts = server.rules.counts()
    return counts  # noqa: RET504 - the failure that ruff does not see leads here, too


@contextmanager
def _control_socket(config: Config) -> Iterator[socket.socket | None]:
    """The control socket, if the config has one."""
    if config.control is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            listening = stack.enter_context(opened(Path(config.control.path)))
        except SocketUnavailable as error:
            raise AddressUnavailable(str(error)) from None
        logger().info("control", path=config.control.path)
        yield listening


def _scrape_failed(error: Exception) -> None:
    report("scrape failed", error)


def _object_tap(config: Config, metrics: Metrics) -> ObjectTap | None:
    """What counts messages by user and the like, and findings, if any of this is wanted."""
    wanted = config.metrics
    if wanted is None or not (wanted.by or wanted.findings):
        return None
    counted = ObjectMetrics(
        wanted.by, max_series=wanted.max_series, findings=wanted.findings, registry=metrics.registry
    )
    return ObjectTap(counted, contained)


async def _keep_bounded(tap: ObjectTap) -> None:
    """Look once a second that what the tap remembers takes no more memory than it may."""
    while True:
        await trio.sleep(RELIEF_INTERVAL)
        for _ in tap.relieve():
            await trio.lowlevel.checkpoint()


@contextmanager
def _metrics_endpoint(config: Config, metrics: Metrics, is_ready: Callable[[], bool]) -> Iterator[None]:
    """Serve /metrics, in threads, if it is configured."""
    if config.metrics is None:
        yield
        return
    host, port = split_address(config.metrics.address)
    with ExitStack() as stack:
        try:
            served = stack.enter_context(endpoint.serve(metrics.registry, host, port, _scrape_failed, is_ready))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise AddressUnavailable(f"cannot serve metrics on {config.metrics.address}: {reason or error}") from None
        logger().info("metrics", address=join_address(host, served), path="/metrics")
        yield
