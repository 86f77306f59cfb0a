"""Observers of a proxy or broker: metrics, control socket, dashboard, recorder, telemetry, printing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio

from amqproxy.app import management_process
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.dashboard_process import DashboardProcess, listening, private_socket_path, secrets_of
from amqproxy.app.management_process import ManagementProcess
from amqproxy.app.printing import Printing, PrintSettings
from amqproxy.app.thread_time import own_thread_time
from amqproxy.configuration.config import Config, ConfigError, ManagementConfig, RecordConfig
from amqproxy.configuration.values import join_address, split_address
from amqproxy.control.hub import Hub
from amqproxy.control.service import LIVE_RING, ControlService, Handler
from amqproxy.control.unix_socket import SocketUnavailable, opened
from amqproxy.process.log import dropped, logger
from amqproxy.process.supervision import contained, kept_up, report, supervised
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.recording.recorder import NotRecordable, Recorder
from amqproxy.taps import endpoint
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.object_tap import ObjectMetrics, ObjectTap
from amqproxy.taps.tap import Tap

if TYPE_CHECKING:
    from amqproxy.telemetry.telemetry import Telemetry  # imported when needed: it needs an extra

Opened = TypeVar("Opened")

RELIEF_INTERVAL = 1.0
"""Seconds between two checks of the memory of the traces for metrics."""


class Watchers:
    """All configured observers of a program.

    To be created in the thread of the event loop. In this order: `open`, `attach`, `start`, `finish`,
    `finish_printing`. `management` is the API of a broker by itself, if it has one.
    """

    def __init__(
        self, config: Config, printed: PrintSettings | None, management: ManagementConfig | None = None
    ) -> None:
        self._config = config
        self._management = management
        self._printed = printed
        self._secrets = secrets_of(config.dashboard) if config.dashboard else {}
        self.metrics = Metrics(counts_messages=config.metrics is None or config.metrics.messages)
        self.metrics.count_log(dropped)
        self.metrics.count_loop(own_thread_time())
        self._printing = Printing(printed, config.limits, self.metrics) if printed else None
        self.drain = trio.Event()
        """Set to end the program in order; a reader of its output may do so."""
        self.is_listening = threading.Event()
        """Set once the listeners are open: until then, and once it drains, the program is not ready."""
        self.takes_clients: Callable[[], bool] = lambda: True
        """Whether any upstream can take a client; called in other threads."""
        self._browsers: socket.socket | None = None
        self._managers: socket.socket | None = None
        self._control_path: Path | None = None
        self.control: socket.socket | None = None
        self._telemetry: Telemetry | None = None
        self._object_tap: ObjectTap | None = None
        self._service: ControlService | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open the sockets, within the block; raise `AddressUnavailable` on failure."""
        dashboard, metrics, control = self._config.dashboard, self._config.metrics, self._config.control
        with ExitStack() as stack:
            if dashboard is not None:
                what = f"serve the dashboard on {dashboard.listen}"
                self._browsers = _opened(stack, what, listening(dashboard))
            if self._management is not None:
                what = f"serve the management API on {self._management.listen}"
                self._managers = _opened(stack, what, management_process.listening(self._management))
            if metrics is not None:
                host, port = split_address(metrics.address)
                served = endpoint.serve(self.metrics.registry, host, port, _scrape_failed, self._is_ready)
                address = join_address(host, _opened(stack, f"serve metrics on {metrics.address}", served))
                logger().info("metrics", address=address, path="/metrics")
            if control is not None:
                self._control_path = Path(control.path)
            elif dashboard is not None or self._management is not None:  # which need a control socket
                what = "make a control socket for the dashboard or the management API"
                self._control_path = _opened(stack, what, private_socket_path())
            if self._control_path is not None:
                try:
                    self.control = stack.enter_context(opened(self._control_path))
                except SocketUnavailable as error:
                    raise AddressUnavailable(str(error)) from None
                logger().info("control", path=str(self._control_path))
            yield

    @property
    def tap(self) -> Tap | None:
        """Tap of the first session; later, the tap made by `attach` is used."""
        return self._printing.tap if self._printing else None

    def attach(self, apply_tap: Callable[[Tap | None], None], upstream: str, brake: TapBrake | None = None) -> None:
        """Attach the taps; raise `ConfigError` if an extra that the config needs is not installed."""
        config = self._config
        self.hub = Hub(self.tap, apply_tap)
        self._telemetry = _telemetry(config, self.metrics, upstream)
        if self._telemetry:
            if config.opentelemetry and config.opentelemetry.sample > 0:  # without spans, pumps keep the connections
                self.hub.add(self._telemetry.tap)
            self._telemetry.start()
        self._object_tap = _object_tap(config, self.metrics)
        if self._object_tap:
            self.hub.add(self._object_tap)
        self.recorder = Recorder(config.limits, self.metrics, self.hub.add, self.hub.remove, brake)

    async def record(self, config: RecordConfig) -> None:
        """Record from the start; raise `AddressUnavailable` if the directory cannot be used."""
        try:
            await self.recorder.start(config)
        except NotRecordable as error:
            raise AddressUnavailable(str(error)) from None

    def start(self, nursery: trio.Nursery, handler: Handler | None) -> ControlService | None:
        """Start the observers; the `handler` answers requests to the control socket, if there is one."""
        service = None
        if self.control and handler:
            kept = self._config.control.ring if self._config.control else 0
            ring = kept or (LIVE_RING if self._config.dashboard else 0)  # traffic before the dashboard runs
            service = ControlService(handler, self.hub, self.metrics, ring=ring, keeps_newest=bool(kept))
            self._service = service
            nursery.start_soon(service.run, self.control)
        nursery.start_soon(kept_up, "recording not watched", self.recorder.run)
        if self._config.dashboard and self._browsers and self._control_path:
            dashboard = DashboardProcess(
                self._config.dashboard, self._secrets, self._browsers, self._control_path, self._config.log
            )
            nursery.start_soon(kept_up, "dashboard failed", dashboard.run)
        if self._management and self._managers and self._control_path:
            management = ManagementProcess(self._management, self._managers, self._control_path, self._config.log)
            nursery.start_soon(kept_up, "management failed", management.run)
        if self._printing:
            nursery.start_soon(supervised, "printing failed", self._printing.run, self._end_printing)
            nursery.start_soon(supervised, "printing failed", self._printing.report_losses)
        if self._telemetry:
            nursery.start_soon(kept_up, "telemetry failed", self._telemetry.run)
        if self._object_tap:
            nursery.start_soon(kept_up, "traces not relieved", _keep_bounded, self._object_tap)
        return service

    def report(self, findings: list[Finding]) -> None:
        """Pass findings about the proxy itself to all that read or count findings."""
        if self._service:
            self._service.note_findings(findings)
        if self._object_tap:
            self._object_tap.count_findings(findings)
        if self._printing:
            self._printing.note_findings(findings)

    async def finish(self) -> None:
        """Finish the recording and the export, after the last traffic."""
        await supervised("recording not ended", self.recorder.close)
        if self._telemetry:
            await supervised("telemetry not finished", self._telemetry.finish)

    async def finish_printing(self) -> None:
        if self._printing:
            await supervised("printing not finished", self._printing.finish)

    def check_reader(self) -> None:
        """Raise `BrokenPipeError` if the reader of standard output has gone away, and that ends the program."""
        if self._printed and self._printed.ends_with_reader and self._printing and self._printing.is_unheard:
            raise BrokenPipeError

    def _is_ready(self) -> bool:
        return self.is_listening.is_set() and not self.drain.is_set() and self.takes_clients()

    def _end_printing(self) -> None:
        logger().warning("printing ended", reason="the reader of standard output is gone")
        if self._printed and self._printed.ends_with_reader:
            self.drain.set()


def _opened(stack: ExitStack, what: str, context: AbstractContextManager[Opened]) -> Opened:
    """Enter a context until the end of `stack`; raise `AddressUnavailable` if that fails."""
    try:
        return stack.enter_context(context)
    except (OSError, ValueError) as error:
        raise AddressUnavailable.because(what, error) from None


def _scrape_failed(error: Exception) -> None:
    report("scrape failed", error)


def _telemetry(config: Config, metrics: Metrics, upstream: str) -> Telemetry | None:
    """Return the exporter of message spans, if configured; raise `ConfigError` if the extra is not installed."""
    if config.opentelemetry is None:
        return None
    try:
        from amqproxy.telemetry.telemetry import Telemetry
    except ImportError as error:
        raise ConfigError(f'opentelemetry: {error}: run `pip install "amqproxy[otel]"`') from None
    telemetry = Telemetry(config.opentelemetry, config.limits, metrics, upstream=upstream)
    logger().info("opentelemetry", endpoint=config.opentelemetry.endpoint, sample=config.opentelemetry.sample)
    return telemetry


def _object_tap(config: Config, metrics: Metrics) -> ObjectTap | None:
    """Return the tap that counts messages by labels, and findings, if configured."""
    wanted = config.metrics
    if wanted is None or not (wanted.by or wanted.findings):
        return None
    counted = ObjectMetrics(
        wanted.by, max_series=wanted.max_series, findings=wanted.findings, registry=metrics.registry
    )
    return ObjectTap(counted, contained)


async def _keep_bounded(tap: ObjectTap) -> None:
    """Check once a second that the tap's memory stays within its bound."""
    while True:
        await trio.sleep(RELIEF_INTERVAL)
        for _ in tap.relieve():
            await trio.lowlevel.checkpoint()
