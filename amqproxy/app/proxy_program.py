"""The proxy as a program."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import trio

from amqproxy.app.addon_log import log_addons
from amqproxy.app.branch_gauges import count_branches
from amqproxy.app.certificate_watch import watch_certificates
from amqproxy.app.client_upstreams import check_passwords, routes_of
from amqproxy.app.interpreter import keep_pauses_short
from amqproxy.app.listeners import Listeners, address_of, announce, contexts_of, open_broker, open_listeners
from amqproxy.app.managed_broker import managed
from amqproxy.app.printing import PrintSettings
from amqproxy.app.pump_threads import open_pumps
from amqproxy.app.reload import Reloader, mirror_upstreams
from amqproxy.app.signals import ENDING, handle_ending, handle_hangup, report_to_systemd
from amqproxy.app.state_watch import StateSource, watch_state
from amqproxy.app.switching import open_switches
from amqproxy.app.watchers import Watchers
from amqproxy.broker.server.server import BrokerServer
from amqproxy.configuration.config import Config
from amqproxy.control.broker_control import BrokerControl
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request_handler import NotReloaded, RequestHandler
from amqproxy.control.rule_control import RuleControl
from amqproxy.control.statistics import Statistics
from amqproxy.control.switch_control import SwitchControl
from amqproxy.control.upstream_control import UpstreamControl
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, kept_up, supervised
from amqproxy.process.systemd import Systemd
from amqproxy.proxy.listener import ProxyServer
from amqproxy.proxy.logins.logins import Logins
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirrors import Dial, Mirrors
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.health_checks import HealthChecks
from amqproxy.proxy.upstreams.name_lookups import NameLookups
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.taps.metrics import Metrics, RuleCounts
from amqproxy.taps.topology.observed_topology import ObservedTopology


async def run(
    config: Config,
    reread: Callable[[], Config] | None = None,
    printed: PrintSettings | None = None,
    directory: Path = Path(),
) -> None:
    """Run the proxy until SIGTERM or SIGINT, then drain it. On SIGHUP, apply the config of `reread`: see `reload`.

    Files that rules name, if the rules come through the control socket, are resolved relative to `directory`.

    With `printed`, the traffic is printed on standard output. When its reader goes away, printing ends; with
    `ends_with_reader`, that drains the proxy too, and raises `BrokenPipeError`. A second signal ends it at once, with
    `KeyboardInterrupt`, and one before it listens ends the process. Raise `ConfigError` if a file of the config is
    wrong, `AddressUnavailable` if an address cannot be used.
    """
    started = time.time()
    log_addons()
    watchers = Watchers(config, printed, config.broker.management if config.upstream == "broker" else None)
    drain, metrics = watchers.drain, watchers.metrics
    systemd = Systemd()
    is_done = False

    async with AsyncExitStack() as stack:
        hangups = stack.enter_context(trio.open_signal_receiver(signal.SIGHUP))
        stack.enter_context(watchers.open())
        logins = Logins(config, metrics)
        listeners = await stack.enter_async_context(open_listeners(config.listen, systemd, logins.by_name))
        broker: BrokerServer | None = None
        own_listeners: Listeners = []
        if config.upstream == "broker":
            broker, own_listeners = await stack.enter_async_context(open_broker(config.broker, systemd))
        if broker is not None:
            count_branches(broker.broker, metrics)
        upstreams = Upstreams(routes_of(config, broker, credentials=logins.credentials), metrics)
        mirrors, mirrored = _mirrors(config, upstreams, metrics)
        if config.seed is not None:
            random.seed(config.seed)
        upstream = upstreams.description
        pumps = stack.enter_context(open_pumps(config, metrics))
        server = ProxyServer(
            upstreams,
            config.limits,
            metrics,
            watchers.tap,
            rules=RuleSet(config.rules, bridging=config.bridging),
            mirrors=mirrors,
            # a file that begins in the middle of a connection has the queues of its consumers from there
            topology=ObservedTopology() if watchers.control or config.record else None,
            pumps=pumps,
        )
        server.follow(logins.credentials.values())
        watchers.takes_clients = upstreams.is_ready
        watchers.attach(server.apply_tap, upstream, server.brake)
        watchers.recorder.shared_legs = upstreams.shared_legs
        if config.record and config.record.at_start:
            await watchers.record(config.record)
        metrics.count_rules(lambda: _rule_counts(server))
        signals = stack.enter_context(trio.open_signal_receiver(*ENDING))
        announce(own_listeners, data=config.broker.data)
        announce(listeners, upstream=upstream)
        watchers.is_listening.set()

        checks = HealthChecks(lambda: upstreams.groups, server.moves.close, check_passwords(config))
        lookups = NameLookups(lambda: upstreams.groups, lambda: checks.restart())
        reloader = Reloader(
            config,
            reread,
            server,
            mirrors,
            mirrored,
            listeners=listeners,
            contexts=contexts_of(own_listeners),
            checks=checks,
            lookups=lookups,
            logins=logins,
        )

        async def reload() -> None:
            systemd.reloading()
            try:
                with suppress(NotReloaded):  # logged already
                    await reloader.reload()
            finally:  # however it failed, the proxy continues unchanged
                systemd.ready()

        rule_control = RuleControl(server, lambda: reloader.upstreams, directory)
        switches = None
        if config.switching is not None:
            switches = open_switches(config.switching, server, rule_control, lambda: reloader.with_login)
            metrics.count_switches(switches.counts)
        handler = RequestHandler(
            server,
            reloader.reload,
            now=trio.current_time,
            time=time.time,
            statistics=Statistics(
                metrics.registry, lambda: (server.lag.last, server.lag.most), started=started, time=time.time
            ),
            rules=rule_control,
            recording=RecordingControl(watchers.recorder, config.record),
            listen=lambda: [address_of(each.listener) for each in listeners],
            upstreams=UpstreamControl(upstreams, server.moves, logins.renewals),
            switches=SwitchControl(switches, lambda: _passing(listeners)) if switches else None,
            broker=BrokerControl(broker.broker, lambda: _is_redacting(server)) if broker else None,
            management=managed(broker, own_listeners, config.broker, started) if broker else None,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle_ending, signals, drain, nursery.cancel_scope)
            nursery.start_soon(handle_hangup, hangups, reload)
            state = StateSource(lambda: upstreams.groups, logins)
            metrics.count_certificates(lambda: state.certificates)
            watched = (reloader.certificate_files, reloader.renew_certificates, state.note_certificates)
            nursery.start_soon(kept_up, "certificates not watched", watch_certificates, *watched)
            nursery.start_soon(kept_up, "temporary rules not ended", rule_control.expire)
            nursery.start_soon(kept_up, "members not checked", checks.run)
            nursery.start_soon(kept_up, "names not looked up", lookups.run)
            nursery.start_soon(kept_up, "logins not checked", logins.run)
            nursery.start_soon(kept_up, "state not watched", watch_state, state, watchers.report)
            if switches is not None:
                nursery.start_soon(kept_up, "clients not switched", switches.run)
            report_to_systemd(nursery, systemd, drain, config.limits.drain_timeout)
            service = watchers.start(nursery, handler)
            if service:
                server.on_hold = service.note_hold
            await nursery.start(mirrors.run)
            keep_pauses_short(nursery, has_messages=broker is not None)
            systemd.ready()
            await server.serve(listeners, drain)
            await watchers.finish()
            if broker:
                await supervised("broker not closed", broker.close, config.broker.limits.close_timeout)
            await watchers.finish_printing()
            is_done = True
            nursery.cancel_scope.cancel()
    logger().info("stopped")
    if not is_done:
        raise KeyboardInterrupt
    watchers.check_reader()


def _passing(listeners: Listeners) -> list[str]:
    """Return the listeners that leave logins to the brokers."""
    return [each.config.address for each in listeners if each.login is None]


def _mirrors(config: Config, upstreams: Upstreams, metrics: Metrics) -> tuple[Mirrors, dict[str, Dialer]]:
    """Return the mirrors for the copies that rules make, and the dialers of the named upstreams.

    Raise `ConfigError` if a password cannot be read.
    """
    dialers, logins = mirror_upstreams(config)
    for reason in DropReason:  # so that each label exists, with 0, before the first drop
        metrics.copies_dropped.labels(str(reason))

    def count(reason: DropReason, copies: int) -> None:
        metrics.copies_dropped.labels(str(reason)).inc(copies)

    limits = config.limits
    dials: dict[str | None, Dial] = {name: dial for name, dial in dialers.items()}  # noqa: C416 - wider in its types
    mirrors = Mirrors(dials, logins, limits.mirror_backlog, limits.mirror_memory, count, own=upstreams.dial_of_member)
    return mirrors, dialers


def _rule_counts(server: ProxyServer) -> Mapping[str, RuleCounts]:
    """Return the rules' counters for a scrape; empty on failure, so that the other metrics are still served."""
    counts: Mapping[str, RuleCounts] = {}
    with contained("rules not counted"):
        counts = server.rules.counts()
    return counts  # noqa: RET504 - also reached after the failure, which ruff does not see


def _is_redacting(server: ProxyServer) -> bool:
    """Whether a rule redacts messages, which are unredacted in the broker."""
    return any(isinstance(rule, Redact) for rule in server.rules.rules)
