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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from amqproxy import __version__
from amqproxy.broker import broker as integrated
from amqproxy.broker.connection.client_connection import ClientConnection
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
    ListenerConfig,
    RecordConfig,
    UpstreamConfig,
    join_address,
    split_address,
)
from amqproxy.control.broker_control import BrokerControl
from amqproxy.control.broker_request_handler import BrokerRequestHandler
from amqproxy.control.hub import Hub
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request_handler import NotReloaded, RequestHandler
from amqproxy.control.rule_control import RuleControl
from amqproxy.control.service import LIVE_RING, ControlService
from amqproxy.control.statistics import Statistics
from amqproxy.control.unix_socket import SocketUnavailable, opened
from amqproxy.dashboard_process import DashboardProcess, listening, private_socket_path, secrets_of
from amqproxy.log import dropped, logger
from amqproxy.printing import Printing, PrintSettings
from amqproxy.proxy.listener import ProxyServer, listen
from amqproxy.proxy.loop_lag import LoopLag
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.upstream import Dialer
from amqproxy.recording.recorder import NotRecordable, Recorder
from amqproxy.reload import Reloader, mirror_upstreams, renew_certificates
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.supervision import contained, kept_up, report, supervised
from amqproxy.systemd import Systemd
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

ENDING_TIME = 15.0
"""Seconds that ending may take once all are drained: recordings, telemetry and what is printed are finished."""

Listeners = list[tuple[trio.SocketListener, ssl.SSLContext | None]]


LAG_INTERVAL = 1.0
"""Seconds between two looks how late the event loop is."""

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
    secrets = secrets_of(config.dashboard) if config.dashboard else {}
    systemd = Systemd()

    def end_printing() -> None:
        _log_end_of_printing()
        if printed and printed.ends_with_reader:
            drain.set()

    async with AsyncExitStack() as stack:
        hangups = stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
        browsers = stack.enter_context(_dashboard_socket(config))
        is_listening = threading.Event()
        stack.enter_context(_metrics_endpoint(config, metrics, lambda: is_listening.is_set() and not drain.is_set()))
        control_path = stack.enter_context(_control_path(config))
        control = stack.enter_context(_control_socket(control_path))
        listeners = await _listeners(config.listen, stack, systemd)
        broker: BrokerServer | None = None
        own_listeners: Listeners = []
        if config.upstream == "broker":
            broker, own_listeners = await stack.enter_async_context(_broker(config.broker, systemd))
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
        telemetry, object_tap = _measuring_taps(config, metrics, hub, upstream)
        recorder = Recorder(config.limits, metrics, hub.add, hub.remove, server.brake)
        if config.record and config.record.at_start:
            await _start_recording(recorder, config.record)
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

        async def reload() -> None:
            systemd.reloading()
            try:
                with suppress(NotReloaded):  # which has been logged
                    await reloader.reload()
            finally:  # however it failed, the proxy goes on as it was
                systemd.ready()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_handle_signals, signals, drain, nursery.cancel_scope)
            nursery.start_soon(_at_hangup, hangups, reload)
            nursery.start_soon(kept_up, "no signs of life", systemd.live)
            nursery.start_soon(_tell_of_drain, drain, systemd, config.limits.drain_timeout)
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
                    recording=RecordingControl(recorder, config.record),
                    listen=[_address(listener) for listener, _ in listeners],
                    broker=BrokerControl(broker.broker, lambda: _is_redacting(server)) if broker else None,
                )
                service = ControlService(
                    handler, hub, metrics, ring=_ring(config), keeps_newest=bool(_configured_ring(config))
                )
                server.on_hold = service.note_hold
                nursery.start_soon(service.run, control)
            await nursery.start(mirrors.run)
            nursery.start_soon(kept_up, "recording not watched", recorder.run)
            keep_pauses_short(nursery)
            if config.dashboard and browsers and control_path:
                dashboard = DashboardProcess(config.dashboard, secrets, browsers, control_path, config.log)
                nursery.start_soon(kept_up, "dashboard failed", dashboard.run)
            if printing:
                nursery.start_soon(supervised, "printing failed", printing.run, end_printing)
                nursery.start_soon(supervised, "printing failed", printing.report_losses)
            if telemetry:
                nursery.start_soon(kept_up, "telemetry failed", telemetry.run)
            if object_tap:
                nursery.start_soon(kept_up, "traces not relieved", _keep_bounded, object_tap)
            systemd.ready()
            await server.serve(listeners, drain)
            await supervised("recording not ended", recorder.close)
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


async def run_broker(config: Config, printed: PrintSettings | None = None) -> None:
    """Run the broker alone until SIGTERM or SIGINT; then close its connections, and return. On SIGHUP, read the
    certificates again.

    Of `config` counts what is for a broker, and for what watches it: [metrics], [control], [dashboard] and the like;
    rules, listeners and upstreams are a proxy's. With `printed`, what passes is printed, as by `run`.

    A second signal ends it at once, with `KeyboardInterrupt`, and one that comes before it listens ends the process.
    `ConfigError` when a file that the config names is wrong, `AddressUnavailable` when an address or the data directory
    cannot be used.
    """
    started = time.time()
    own = config.broker
    if not own.listen:
        own = msgspec.structs.replace(own, listen=(ListenerConfig(address=BROKER_ADDRESS),))
    drain = trio.Event()
    is_done = False
    systemd = Systemd()
    is_listening = threading.Event()
    metrics = Metrics(counts_messages=config.metrics is None or config.metrics.messages)
    metrics.count_log(dropped)
    printing = Printing(printed, config.limits, metrics) if printed else None
    secrets = secrets_of(config.dashboard) if config.dashboard else {}

    def end_printing() -> None:
        _log_end_of_printing()
        if printed and printed.ends_with_reader:
            drain.set()

    async with AsyncExitStack() as stack:
        hangups = stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
        browsers = stack.enter_context(_dashboard_socket(config))
        stack.enter_context(_metrics_endpoint(config, metrics, lambda: is_listening.is_set() and not drain.is_set()))
        control_path = stack.enter_context(_control_path(config))
        control = stack.enter_context(_control_socket(control_path))
        server, listeners = await stack.enter_async_context(_broker(own, systemd))
        if control or config.metrics:
            server.metrics = metrics
            count_broker(server.broker, metrics)
        server.tap = printing.tap if printing else None
        hub = Hub(printing.tap if printing else None, server.apply_tap)
        telemetry, object_tap = _measuring_taps(config, metrics, hub, "broker")
        recorder = Recorder(config.limits, metrics, hub.add, hub.remove)
        reload = partial(_renew_certificates, listeners)
        async with trio.open_nursery() as nursery:
            if printing:
                nursery.start_soon(supervised, "printing failed", printing.run, end_printing)
                nursery.start_soon(supervised, "printing failed", printing.report_losses)
            nursery.start_soon(kept_up, "recording not watched", recorder.run)
            if config.record and config.record.at_start:
                await _start_recording(recorder, recorded_by_broker(config.record))
            if control:
                lag = LoopLag()
                nursery.start_soon(kept_up, "lag not measured", _note_lag, lag)
                handler = BrokerRequestHandler(
                    server,
                    reload,
                    time=time.time,
                    statistics=Statistics(
                        metrics.registry, lambda: (lag.last, lag.most), started=started, time=time.time
                    ),
                    recording=RecordingControl(recorder, config.record, recorded_by_broker),
                    listen=[_address(listener) for listener, _ in listeners],
                )
                service = ControlService(
                    handler, hub, metrics, ring=_ring(config), keeps_newest=bool(_configured_ring(config))
                )
                nursery.start_soon(service.run, control)
            if config.dashboard and browsers and control_path:
                dashboard = DashboardProcess(config.dashboard, secrets, browsers, control_path, config.log)
                nursery.start_soon(kept_up, "dashboard failed", dashboard.run)
            if telemetry:
                nursery.start_soon(kept_up, "telemetry failed", telemetry.run)
            if object_tap:
                nursery.start_soon(kept_up, "traces not relieved", _keep_bounded, object_tap)
            with trio.open_signal_receiver(*ENDING) as signals:
                _announce(listeners, data=own.data)
                is_listening.set()
                nursery.start_soon(_handle_signals, signals, drain, nursery.cancel_scope)
                keep_pauses_short(nursery)
                nursery.start_soon(_at_hangup, hangups, reload)
                nursery.start_soon(kept_up, "no signs of life", systemd.live)
                nursery.start_soon(_tell_of_drain, drain, systemd, own.limits.close_timeout)
                systemd.ready()
                await drain.wait()
                await supervised("broker not closed", server.close, own.limits.close_timeout)
                await supervised("recording not ended", recorder.close)
                if telemetry:
                    await supervised("telemetry not finished", telemetry.finish)
                if printing:
                    await supervised("printing not finished", printing.finish)
                is_done = True
                nursery.cancel_scope.cancel()
    logger().info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    if printed and printed.ends_with_reader and printing and printing.is_unheard:
        raise BrokenPipeError


def recorded_by_broker(config: RecordConfig) -> RecordConfig:
    """What a broker by itself records: one leg, and no client waits for that. `ValueError` where more is wanted."""
    if config.legs == "upstream":
        raise ValueError(".legs: a broker by itself has no upstream: leave it out")
    if config.when_full == "wait":
        raise ValueError('.when_full: the broker by itself does not wait for the disk: set it to "drop"')
    return msgspec.structs.replace(config, legs="client")


def count_broker(broker: integrated.Broker, metrics: Metrics) -> None:
    """Have `metrics` show the connections and channels that a broker has, at each scrape."""

    def opened() -> list[ClientConnection]:
        every = list(broker.connections)  # at once: this is another thread
        return [each for each in every if isinstance(each, ClientConnection) and each.vhost is not None]

    metrics.connections.set_function(lambda: len(opened()))
    metrics.channels.set_function(lambda: sum(len(each.channels) for each in opened()))
    metrics.blocked.set_function(lambda: sum(each.is_blocked for each in opened()))


async def _note_lag(lag: LoopLag) -> None:
    """Look once a second how late the event loop is."""
    while True:
        due = trio.current_time() + LAG_INTERVAL
        await trio.sleep_until(due)
        lag.note(trio.current_time() - due)


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


async def _start_recording(recorder: Recorder, config: RecordConfig) -> None:
    """Record from the start. `AddressUnavailable` when the directory cannot be used."""
    try:
        await recorder.start(config)
    except NotRecordable as error:
        raise AddressUnavailable(str(error)) from None


@asynccontextmanager
async def _broker(config: BrokerConfig, systemd: Systemd) -> AsyncIterator[tuple[BrokerServer, Listeners]]:
    """The integrated broker, and its listeners where the config has them."""
    async with AsyncExitStack() as stack:
        listeners = await _listeners(config.listen, stack, systemd)
        try:
            server = await stack.enter_async_context(configured(config, __version__))
        except StoreError as error:
            raise AddressUnavailable(str(error)) from None
        for opened, context in listeners:
            server.listen(opened, context)
        yield server, listeners


async def _listeners(listeners: Iterable[ListenerConfig], stack: AsyncExitStack, systemd: Systemd) -> Listeners:
    """All of them, open until `stack` is left. `ConfigError` or `AddressUnavailable` where one cannot be."""
    contexts = [(listener, server_context(listener.tls) if listener.tls else None) for listener in listeners]
    found = []
    for listener, context in contexts:
        try:
            if listener.passed_name is None:
                opened = await listen(listener.address)
            else:
                passed = systemd.sockets(listener.passed_name)
                opened = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in passed]
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
        logger().info("listening", address=_address(listener), tls=context is not None, **fields)


async def _renew_certificates(listeners: Listeners) -> None:
    renew_certificates(_contexts(listeners))


def _address(listener: trio.SocketListener) -> str:
    return join_address(*listener.socket.getsockname()[:2])


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


def _measuring_taps(
    config: Config, metrics: Metrics, hub: Hub, upstream: str
) -> tuple[Telemetry | None, ObjectTap | None]:
    """What the config has of telemetry and of metrics by object, as taps of `hub`. `ConfigError`: see `_telemetry`."""
    telemetry = _telemetry(config, metrics, upstream)
    if telemetry:
        hub.add(telemetry.tap)
        telemetry.start()
    object_tap = _object_tap(config, metrics)
    if object_tap:
        hub.add(object_tap)
    return telemetry, object_tap


def _telemetry(config: Config, metrics: Metrics, upstream: str) -> Telemetry | None:
    """What exports a span for each message, if that is configured. `ConfigError` when the extra is not installed."""
    if config.opentelemetry is None:
        return None
    try:
        from amqproxy.telemetry.telemetry import Telemetry
    except ImportError as error:
        raise ConfigError(f'opentelemetry: {error}: run `pip install "amqproxy[otel]"`') from None
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


async def _tell_of_drain(drain: trio.Event, systemd: Systemd, within: float) -> None:
    await drain.wait()
    systemd.stopping(within + ENDING_TIME)


async def _at_hangup(hangups: AsyncIterator[int], reload: Callable[[], Awaitable[None]]) -> None:
    """At each SIGHUP, read again what can be; what fails changes nothing."""
    async for _ in hangups:
        logger().info("reloading", reason="SIGHUP")
        with contained("reload failed"):
            await reload()


def _rule_counts(server: ProxyServer) -> Mapping[str, RuleCounts]:
    """What is counted of rules, for a scrape; nothing where that fails, so that the other metrics are still shown."""
    counts: Mapping[str, RuleCounts] = {}
    with contained("rules not counted"):
        counts = server.rules.counts()
    return counts  # noqa: RET504 - the failure that ruff does not see leads here, too


@contextmanager
def _dashboard_socket(config: Config) -> Iterator[socket.socket | None]:
    """Where browsers connect, if there is to be a dashboard."""
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(listening(config.dashboard))
        except (OSError, ValueError) as error:
            assert config.dashboard is not None
            reason = error.strerror if isinstance(error, OSError) else None
            raise AddressUnavailable(
                f"cannot serve the dashboard on {config.dashboard.listen}: {reason or error}"
            ) from None
        yield listener


@contextmanager
def _control_path(config: Config) -> Iterator[Path | None]:
    """Where the control socket is to be: if the config has none, a dashboard needs one of its own."""
    with ExitStack() as stack:
        if config.control is not None:
            yield Path(config.control.path)
        elif config.dashboard is not None:
            yield stack.enter_context(private_socket_path())
        else:
            yield None


@contextmanager
def _control_socket(path: Path | None) -> Iterator[socket.socket | None]:
    """The control socket, if there is to be one."""
    if path is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            listening = stack.enter_context(opened(path))
        except SocketUnavailable as error:
            raise AddressUnavailable(str(error)) from None
        logger().info("control", path=str(path))
        yield listening


def _is_redacting(server: ProxyServer) -> bool:
    """Does a rule hide something of messages? In the broker they are whole."""
    return any(isinstance(rule, Redact) for rule in server.rules.rules)


def _ring(config: Config) -> int:
    """Bytes of what has passed that are kept: with a dashboard, what passes before it is there."""
    return _configured_ring(config) or (LIVE_RING if config.dashboard else 0)


def _configured_ring(config: Config) -> int:
    return config.control.ring if config.control else 0


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
