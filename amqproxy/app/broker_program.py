"""The integrated broker without a proxy, as a program."""

from __future__ import annotations

import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import trio

from amqproxy import __version__
from amqproxy.app.addon_log import log_addons
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.branch_gauges import count_branches, count_shovels
from amqproxy.app.certificate_watch import watch_certificates
from amqproxy.app.interpreter import keep_pauses_short
from amqproxy.app.listeners import address_of, announce, contexts_of, open_broker
from amqproxy.app.managed_broker import managed
from amqproxy.app.printing import PrintSettings
from amqproxy.app.reload import renew_certificates
from amqproxy.app.signals import ENDING, handle_ending, handle_hangup, report_to_systemd
from amqproxy.app.state_watch import StateSource, watch_state
from amqproxy.app.watchers import Watchers
from amqproxy.broker import broker as integrated
from amqproxy.broker.clients import ConnectedClient
from amqproxy.broker.definitions import definitions_json
from amqproxy.broker.server.persistence import persisted
from amqproxy.broker.storage.data_directory import StoreError
from amqproxy.broker.storage.store import NAME
from amqproxy.configuration.config import Config, ListenerConfig, RecordConfig
from amqproxy.control.broker_request_handler import BrokerRequestHandler
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.statistics import Statistics
from amqproxy.process.log import logger
from amqproxy.process.supervision import kept_up, supervised
from amqproxy.process.systemd import Systemd
from amqproxy.proxy.loop_lag import LoopLag
from amqproxy.shovels.shovel_process import ShovelProcess
from amqproxy.shovels.shovel_states import PLUGIN, ShovelStates
from amqproxy.sockets.tls import files_of
from amqproxy.taps.metrics import Metrics

ADDRESS = "127.0.0.1:5672"
"""Default address of the broker."""

LAG_INTERVAL = 1.0
"""Seconds between two measurements of the event loop's delay."""


async def run_broker(config: Config, printed: PrintSettings | None = None) -> None:
    """Run the broker alone until SIGTERM or SIGINT; then close its connections, and return. On SIGHUP, reload
    certificates.

    `config` applies as far as it concerns a broker and its observers: [metrics], [control], [dashboard] and the like;
    rules, listeners and upstreams are a proxy's. With `printed`, the traffic is printed, as by `run`.

    A second signal ends it at once, with `KeyboardInterrupt`, and one before it listens ends the process. Raise
    `ConfigError` if a file of the config is wrong, `AddressUnavailable` if an address or the data directory cannot be
    used.
    """
    started = time.time()
    own = config.broker
    if not own.listen:
        own = msgspec.structs.replace(own, listen=(ListenerConfig(address=ADDRESS),))
    log_addons()
    watchers = Watchers(config, printed, own.management)
    drain, metrics = watchers.drain, watchers.metrics
    systemd = Systemd()
    lag = LoopLag()
    is_done = False

    async with AsyncExitStack() as stack:
        hangups = stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
        stack.enter_context(watchers.open())
        server, listeners = await stack.enter_async_context(open_broker(own, systemd))
        if config.control or config.dashboard or config.metrics:  # a management API alone asks for none of these
            server.metrics = metrics
            count_broker(server.broker, metrics)
        server.tap = watchers.tap
        watchers.attach(server.apply_tap, "broker")
        if config.record and config.record.at_start:
            await watchers.record(recorded_by_broker(config.record))

        shovels = ShovelStates(server.broker, is_enabled=PLUGIN in own.plugins)
        count_shovels(shovels, metrics)
        contexts = contexts_of(listeners)

        def renew() -> None:
            renew_certificates(contexts)

        async def reload() -> None:
            renew()

        handler = BrokerRequestHandler(
            server,
            reload,
            time=time.time,
            statistics=Statistics(metrics.registry, lambda: (lag.last, lag.most), started=started, time=time.time),
            recording=RecordingControl(watchers.recorder, config.record, recorded_by_broker),
            management=managed(server, listeners, own, started, shovels),
            listen=[address_of(each.listener) for each in listeners],
        )
        signals = stack.enter_context(trio.open_signal_receiver(*ENDING))
        announce(listeners, data=own.data)
        watchers.is_listening.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle_ending, signals, drain, nursery.cancel_scope)
            nursery.start_soon(handle_hangup, hangups, reload)
            files = [file for context in contexts for file in files_of(context)]
            state = StateSource()
            metrics.count_certificates(lambda: state.certificates)
            watched = (lambda: files, renew, state.note_certificates)
            nursery.start_soon(kept_up, "certificates not watched", watch_certificates, *watched)
            nursery.start_soon(kept_up, "state not watched", watch_state, state, watchers.report)
            report_to_systemd(nursery, systemd, drain, own.limits.close_timeout)
            if watchers.start(nursery, handler):
                nursery.start_soon(kept_up, "lag not measured", _note_lag, lag)
            keep_pauses_short(nursery, has_messages=True)
            systemd.ready()
            async with trio.open_nursery() as shovelling:
                shovelling.start_soon(kept_up, "shovels failed", ShovelProcess(server, shovels).run)
                await drain.wait()
                shovelling.cancel_scope.cancel()
            await supervised("broker not closed", server.close, own.limits.close_timeout)
            await watchers.finish()
            await watchers.finish_printing()
            is_done = True
            nursery.cancel_scope.cancel()
    logger().info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    watchers.check_reader()


def recorded_by_broker(config: RecordConfig) -> RecordConfig:
    """Return the recorder's configuration for a broker alone: one leg, without waiting clients; raise `ValueError`
    otherwise.
    """
    if config.legs == "upstream":
        raise ValueError(".legs: a broker without a proxy has no upstream: leave it out")
    if config.when_full == "wait":
        raise ValueError('.when_full: a broker without a proxy does not wait for the disk: set it to "drop"')
    return msgspec.structs.replace(config, legs="client")


def count_broker(broker: integrated.Broker, metrics: Metrics) -> None:
    """Add gauges of a broker's connections, channels and branches to `metrics`, read at each scrape."""

    def opened() -> list[ConnectedClient]:
        every = list(broker.connections)  # in one step: this is another thread
        return [each for each in every if each.vhost is not None]

    metrics.connections.set_function(lambda: len(opened()))
    metrics.channels.set_function(lambda: sum(len(each.channels) for each in opened()))
    count_branches(broker, metrics)
    metrics.blocked.set_function(lambda: sum(each.is_blocked for each in opened()))


async def export(data: Path) -> dict[str, Any]:
    """Return the definitions that a broker has stored in the directory `data`; raise `AddressUnavailable` if there
    are none.
    """
    try:
        is_there = (data / NAME).is_file()
    except OSError as error:
        raise AddressUnavailable(f"{data} cannot be read: {error.strerror}") from None
    if not is_there:
        raise AddressUnavailable(f"{data} does not contain a broker's data: there is no {NAME} in it")
    broker = integrated.Broker(__version__)
    try:
        async with persisted(broker, data):
            return definitions_json.export(broker)
    except StoreError as error:
        raise AddressUnavailable(str(error)) from None


async def _note_lag(lag: LoopLag) -> None:
    """Measure the delay of the event loop once a second."""
    while True:
        due = trio.current_time() + LAG_INTERVAL
        await trio.sleep_until(due)
        lag.note(trio.current_time() - due)
