"""The upstream groups of a config, at the start and after a reload."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from amqproxy.broker.server.server import BrokerServer
from amqproxy.configuration.config import INTEGRATED, Config, ConfigError
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.upstream_config import MemberConfig, NamedUpstream, UpstreamConfig
from amqproxy.configuration.values import split_address
from amqproxy.proxy.admission_queue import AdmissionQueue
from amqproxy.proxy.amqp091.pools.pools import Pools
from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.upstream import MAIN, Dialer
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.routes import Route, Routes
from amqproxy.proxy.upstreams.upstreams import log_event, loop_clock
from amqproxy.sockets.transport import Address, SocketTransport, Transport


class IntegratedDialer:
    """Opens connections to the integrated broker, in this process."""

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker

    async def __call__(self, ends: tuple[Address, Address] | None = None) -> Transport:
        return SocketTransport(self._broker.open())


def routes_of(
    config: Config,
    broker: BrokerServer | None = None,
    before: Routes | None = None,
    credentials: Mapping[str, CredentialSource] = MappingProxyType({}),
) -> Routes:
    """Return the routes to all groups of the config; raise `ConfigError` if a TLS file is wrong.

    Members that are in `before` with the same settings are taken from there, with their health and their sessions.
    `credentials` are the proxy's own, by the groups' names.
    """
    known = {group.name: group for group in before.groups} if before is not None else {}
    groups = {
        name: _group(name, each, config.limits.connect_timeout, known.get(name))
        for name, each in config.clients_upstreams.items()
    }
    if isinstance(config.upstream, UpstreamConfig):
        default = _main(config.upstream, config.limits.connect_timeout, known.get(MAIN))
    elif config.upstream == INTEGRATED:
        default = known.get(MAIN) or _integrated(broker)
    else:
        default = groups[config.upstream]
    by_listener = {each.address: groups[each.upstream] for each in config.listen if each.upstream is not None}
    if before is not None:  # a listener that the config has no longer is there until a restart, with its group
        present = {each.address for each in config.listen}
        for address, group in before.by_listener.items():
            if address not in present:
                by_listener[address] = groups.get(group.name, group)
    routes = [Route(each, groups[each.upstream]) for each in config.routes]
    found = Routes(default, by_listener, routes, groups.values())
    for group in found.groups:
        group.login = credentials.get(group.name)
        before_it = known.get(group.name)
        group.pools = _pools(group, _pool_of(config, group.name), before_it)
    return found


def _pool_of(config: Config, name: str) -> PoolConfig | None:
    if name in config.clients_upstreams:
        return config.clients_upstreams[name].pool
    return config.upstream.pool if isinstance(config.upstream, UpstreamConfig) else None


def _pools(group: UpstreamGroup, config: PoolConfig | None, before: UpstreamGroup | None) -> Pools | None:
    """Return the pools of a group: those from before a reload, with the new limits."""
    if config is None:
        return None
    found = before.pools if before is not None else None
    if not isinstance(found, Pools):
        found = Pools(group.name, config)
    group.pool_config = config  # takes effect when the routes do: a reload may still be refused
    return found


def _integrated(broker: BrokerServer | None) -> UpstreamGroup:
    assert broker is not None
    return UpstreamGroup(MAIN, [Member(INTEGRATED, IntegratedDialer(broker))], clock=loop_clock())


def _main(config: UpstreamConfig, timeout: float, before: UpstreamGroup | None) -> UpstreamGroup:
    """Return the group of `[upstream]`, with its only member."""
    member = before.member(config.address) if before is not None else None
    if member is None or member.dial.upstream != config:
        member = Member(config.address, Dialer(config, timeout))
    return UpstreamGroup(
        MAIN,
        [member],
        connect_timeout=timeout,
        logins=_logins(config, before),
        clock=loop_clock(),
        on_event=log_event,
    )


def _logins(config: UpstreamConfig, before: UpstreamGroup | None) -> AdmissionQueue | None:
    """Return the queue of a group's clients: the one from before a reload, with the new limits."""
    if not config.logins_per_second:
        return None
    found = before.logins if before is not None else None
    if found is None:
        return AdmissionQueue(config.logins_per_second, config.login_queue)
    found.rate, found.most = config.logins_per_second, config.login_queue
    return found


def _group(name: str, config: NamedUpstream, timeout: float, before: UpstreamGroup | None) -> UpstreamGroup:
    timeout = config.connect_timeout or timeout
    members: list[Member] = []
    names: dict[str, Callable[[str], Member]] = {}
    for each in config.all_members:
        make = partial(_member, each, config.slow_start, timeout, before)
        known = [] if before is None else [member.address for member in before.members if member.origin == each.address]
        if each.resolve == "all":
            names[each.address] = make
            members += map(make, known or [each.address])  # by its name, until it is looked up
        else:
            members.append(make(each.address))
    return UpstreamGroup(
        name,
        members,
        selection=config.selection,
        hash_by=config.hash_by,
        zone=config.zone,
        ejection=config.ejection,
        check=config.check,
        connect_timeout=timeout,
        rebalance_rate=config.rebalance_rate,
        logins=_logins(config, before),
        names=names,
        resolve_interval=config.resolve_interval,
        random=random.random,
        clock=loop_clock(),
        on_event=log_event,
    )


def _member(
    config: MemberConfig, slow_start: float, timeout: float, before: UpstreamGroup | None, address: str
) -> Member:
    """Return the member at an address, which is the one of the config or one that its name was resolved to."""
    tls = config.tls
    if tls is not None and tls.server_name is None and address != config.address:
        tls = msgspec.structs.replace(tls, server_name=split_address(config.address)[0])
    wanted = UpstreamConfig(address=address, tls=tls, proxy_protocol=bool(config.proxy_protocol))
    found = before.member(address) if before is not None else None
    if found is None or found.dial.upstream != wanted or found.dial.timeout != timeout:
        found = Member(address, Dialer(wanted, timeout), origin=config.address)
    found.configure(weight=config.weight, priority=config.priority, zone=config.zone, slow_start=slow_start)
    return found


def dialers_of(routes: Routes) -> list[Dialer]:
    """Return the dialers of all members that are not the integrated broker."""
    members = [member for group in routes.groups for member in group.members]
    return [member.dial for member in members if isinstance(member.dial, Dialer)]


def check_passwords(config: Config) -> dict[str, str]:
    """Return the passwords with which members are checked, by group; raise `ConfigError` if one cannot be read."""
    found, resources = {}, ConfigResources(Path())
    for name, each in config.clients_upstreams.items():
        check = each.check
        if check is None or not check.user:
            continue
        try:
            text = (
                resources.text(check.password_file) if check.password_file else resources.variable(check.password_env)
            )
        except ValueError as error:
            raise ConfigError(f"upstreams.{name}.check: {error}") from None
        found[name] = text.rstrip("\r\n")
    return found
