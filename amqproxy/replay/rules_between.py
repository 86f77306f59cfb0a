"""A proxy with rules, in this process, between the replay and the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from amqproxy.configuration.config import Limits
from amqproxy.proxy.listener import ProxyServer
from amqproxy.proxy.open_listener import OpenListener
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.replay.replayer import Dial
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule
from amqproxy.sockets.transport import SocketTransport, Transport, plain_socket
from amqproxy.taps.metrics import Metrics

HOST = "127.0.0.1"


@asynccontextmanager
async def rules_between(dial: Dial, rules: Sequence[Rule], limits: Limits, upstream: str) -> AsyncIterator[Dial]:
    """Run a proxy with these rules; yield a `Dial` that connects through it."""
    metrics = Metrics()
    server = ProxyServer(Upstreams.of(dial, metrics, upstream), limits, metrics, rules=RuleSet(rules))
    listeners = await trio.open_tcp_listeners(0, host=HOST)
    port = listeners[0].socket.getsockname()[1]

    async def through() -> Transport:
        return SocketTransport(plain_socket(await trio.open_tcp_stream(HOST, port)))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, [OpenListener(each) for each in listeners], trio.Event())
            yield through
            nursery.cancel_scope.cancel()
    finally:
        for listener in listeners:
            listener.socket.close()
