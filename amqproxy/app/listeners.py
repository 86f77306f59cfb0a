"""Listening sockets for clients."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import trio

from amqproxy import __version__
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.server import BrokerServer
from amqproxy.broker.storage.data_directory import StoreError
from amqproxy.configuration.config import BrokerConfig, ListenerConfig
from amqproxy.configuration.values import join_address
from amqproxy.process.log import logger
from amqproxy.process.systemd import Systemd
from amqproxy.proxy.listener import listen
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.open_listener import ListenerLoad, OpenListener
from amqproxy.sockets.tls import server_context

Listeners = list[OpenListener]


@asynccontextmanager
async def open_listeners(
    listeners: Iterable[ListenerConfig], systemd: Systemd, logins: Mapping[str, Login] = MappingProxyType({})
) -> AsyncIterator[Listeners]:
    """Open all listeners, within the block; raise `ConfigError` or `AddressUnavailable` on failure.

    `logins` are those of the proxy, by their names.
    """
    found: Listeners = []
    try:
        for listener, context in contexts_for(listeners):
            found += await opened_listener(listener, context, systemd)
        for each in found:
            each.login = None if each.config.login is None else logins[each.config.login]
        yield found
    finally:
        with trio.CancelScope(shield=True):
            await close_listeners(found)


def contexts_for(listeners: Iterable[ListenerConfig]) -> list[tuple[ListenerConfig, ssl.SSLContext | None]]:
    """Return the TLS contexts of all listeners, before any is opened; raise `ConfigError` if a file is wrong."""
    return [(listener, server_context(listener.tls) if listener.tls else None) for listener in listeners]


async def opened_listener(
    config: ListenerConfig, context: ssl.SSLContext | None, systemd: Systemd | None = None
) -> Listeners:
    """Open the sockets of one listener, those that systemd has passed included; raise `AddressUnavailable`."""
    try:
        if config.passed_name is None:
            opened = await listen(config.address)
        else:
            passed = [] if systemd is None else systemd.sockets(config.passed_name)
            opened = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in passed]
    except (OSError, ValueError) as error:
        raise AddressUnavailable.because(f"listen on {config.address}", error) from None
    load = ListenerLoad(config)
    return [OpenListener(each, config, tls=context, load=load) for each in opened]


async def close_listeners(listeners: Listeners) -> None:
    """Close listening sockets."""
    for each in listeners:
        await each.listener.aclose()


class ListenerChange(NamedTuple):
    """The next configuration of listening sockets, and the TLS context for it."""

    sockets: Listeners
    config: ListenerConfig
    tls: ssl.SSLContext | None


class ListenerChanges(NamedTuple):
    """Changes of listeners: those that stay, the configurations of further ones, and the sockets that go."""

    changed: list[ListenerChange]
    further: list[ListenerConfig]
    removed: Listeners


def changes_of(listeners: Listeners, configs: Iterable[ListenerConfig]) -> ListenerChanges:
    """Return the changes from present listeners to `configs`; raise `ConfigError` if a TLS file is wrong.

    Listeners with the same address are the same. Several with the same address, such as one with port 0, are matched in
    their order.
    """
    sockets: dict[ListenerLoad, Listeners] = {}
    for each in listeners:
        sockets.setdefault(each.load, []).append(each)
    present = list(sockets.values())
    changes, further = [], []
    for config in configs:
        found = next((each for each in present if each[0].config.address == config.address), None)
        if found is None:
            further.append(config)
            continue
        present.remove(found)
        before = found[0]
        if config != before.config:
            tls = before.tls
            if config.tls != before.config.tls:
                tls = server_context(config.tls) if config.tls else None
            changes.append(ListenerChange(found, config, tls))
    return ListenerChanges(changes, further, [each for sockets_of_one in present for each in sockets_of_one])


@asynccontextmanager
async def open_broker(config: BrokerConfig, systemd: Systemd) -> AsyncIterator[tuple[BrokerServer, Listeners]]:
    """Open the integrated broker, and its listeners if the config has any."""
    async with open_listeners(config.listen, systemd) as listeners, AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(configured(config, __version__))
        except StoreError as error:
            raise AddressUnavailable(str(error)) from None
        for opened in listeners:
            server.listen(opened.listener, opened.tls)
        yield server, listeners


def announce(listeners: Listeners, **fields: Any) -> None:
    """Log the listening addresses; from this moment on, signals drain."""
    for each in listeners:
        logger().info("listening", address=address_of(each.listener), tls=each.tls is not None, **fields)


def address_of(listener: trio.SocketListener) -> str:
    return join_address(*listener.socket.getsockname()[:2])


def contexts_of(listeners: Listeners) -> list[ssl.SSLContext]:
    """Return the TLS contexts of the listeners, whose certificates can be reloaded."""
    return [each.tls for each in listeners if each.tls is not None]
