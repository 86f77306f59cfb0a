"""The switches of a proxy, as configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import trio

from amqproxy.configuration.config import SwitchingConfig
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.upstream_config import NamedUpstream
from amqproxy.control.rule_control import RuleControl
from amqproxy.moving.move_job import MovedQueue, MoveEnd
from amqproxy.proxy.listener import ProxyServer
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.switching.switch_file import SwitchFile
from amqproxy.switching.switches import Switches
from amqproxy.taps.topology.observed_objects import ObservedQueue

RESERVED = "amq."
"""Prefix of names that clients may not declare: a broker makes them, and the other one would refuse them."""


def open_switches(
    config: SwitchingConfig,
    server: ProxyServer,
    rules: RuleControl,
    named: Callable[[], Mapping[str, NamedUpstream]],
) -> Switches:
    """Return the switches of a file, and let them divert new clients; raise `ConfigError` if it cannot be read.

    `named` returns the upstreams with a login.
    """
    upstreams = server.upstreams

    def end_of(name: str) -> MoveEnd:
        return _end_of(upstreams, named().get(name), name)

    def declared(vhost: str | None) -> Iterator[MovedQueue]:
        return _declared(server, vhost)

    switches = Switches(
        SwitchFile(Path(config.state)), lambda: upstreams.groups, server.sessions, end_of, declared, rules
    )
    upstreams.divert = switches.divert
    return switches


def _end_of(upstreams: Upstreams, config: NamedUpstream | None, name: str) -> MoveEnd:
    """Return the member of an upstream that would take a client now, and the login; raise `ValueError`."""
    if config is None:
        needed = "it needs `user`, and a `password_file` or `password_env`"
        raise ValueError(f"[upstreams.{name}] has no login to move messages: {needed}")
    group = next((each for each in upstreams.groups if each.name == name), None)
    dialers = [] if group is None else [member.dial for member in group.candidates(trio.current_time())]
    if not dialers or not isinstance(dialers[0], Dialer):
        raise ValueError(f"[upstreams.{name}] has no member that takes clients")
    resources = ConfigResources(Path())
    text = resources.text(config.password_file) if config.password_file else resources.variable(config.password_env)
    return MoveEnd(
        upstream=dialers[0].upstream, user=config.user, password=text.rstrip("\r\n"), timeout=dialers[0].timeout
    )


def _declared(server: ProxyServer, vhost: str | None) -> Iterator[MovedQueue]:
    """Yield the queues that clients have declared or used, without those that only their clients can use."""
    if server.topology is None:
        return
    for each in server.topology.entries(vhost):
        if isinstance(each, ObservedQueue) and not each.exclusive and not each.name.startswith(RESERVED):
            yield MovedQueue(each.vhost, each.name, str((each.arguments or {}).get("x-queue-type", "")))
