"""Listening sockets for clients."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

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
from amqproxy.proxy.admission_queue import AdmissionQueue
from amqproxy.proxy.listener import ListenerLoad, OpenListener, listen
from amqproxy.sockets.tls import server_context

Listeners = list[OpenListener]

MOST_WAITING = 10_000
"""Maximum number of clients of one listener that wait to begin their handshake."""


@asynccontextmanager
async def open_listeners(listeners: Iterable[ListenerConfig], systemd: Systemd) -> AsyncIterator[Listeners]:
    """Open all listeners, within the block; raise `ConfigError` or `AddressUnavailable` on failure."""
    contexts = [(listener, server_context(listener.tls) if listener.tls else None) for listener in listeners]
    async with AsyncExitStack() as stack:
        found = []
        for listener, context in contexts:
            try:
                if listener.passed_name is None:
                    opened = await listen(listener.address)
                else:
                    passed = systemd.sockets(listener.passed_name)
                    opened = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in passed]
            except (OSError, ValueError) as error:
                raise AddressUnavailable.because(f"listen on {listener.address}", error) from None
            load = _load_of(listener)
            for each in opened:
                await stack.enter_async_context(each)
                found.append(
                    OpenListener(
                        each,
                        context,
                        listener.unread,
                        listener.address,
                        listener.proxy_protocol,
                        listener.login,
                        load,
                    )
                )
        yield found


def _load_of(listener: ListenerConfig) -> ListenerLoad | None:
    """Return what a listener may take of clients; `None` if it has no limits of its own."""
    if listener.connections is None and not listener.handshakes_per_second:
        return None
    turns = AdmissionQueue(listener.handshakes_per_second, MOST_WAITING) if listener.handshakes_per_second else None
    return ListenerLoad(listener.connections, turns)


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
