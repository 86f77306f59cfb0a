"""The integrated broker as its management API and the dashboard see it."""

from __future__ import annotations

import time
from pathlib import Path

from amqproxy.app.listeners import Listeners
from amqproxy.broker.server.server import BrokerServer
from amqproxy.configuration.config import BrokerConfig
from amqproxy.control.management.broker_management import BrokerManagement, ListenerFacts
from amqproxy.proxy.open_listener import OpenListener
from amqproxy.shovels.shovel_states import ShovelStates


def managed(
    server: BrokerServer,
    listeners: Listeners,
    config: BrokerConfig,
    started: float,
    shovels: ShovelStates | None = None,
) -> BrokerManagement:
    """Return the answers to the management requests about a broker, which was `started` at this time of day.

    Without `shovels`, those of its parameters do not run.
    """
    return BrokerManagement(
        server.broker,
        server.served,
        [_listener_facts(each) for each in listeners],
        directory=None if config.data is None else Path(config.data),
        most_connections=config.limits.connections,
        tokens=server.tokens,
        shovels=shovels,
        started=started,
        time=time.time,
    )


def _listener_facts(opened: OpenListener) -> ListenerFacts:
    host, port = opened.listener.socket.getsockname()[:2]
    return ListenerFacts(host, port, opened.tls is not None)
