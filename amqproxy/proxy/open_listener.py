"""A listening socket with what its configuration says about clients, which a reload replaces."""

from __future__ import annotations

import ssl

import trio

from amqproxy.configuration.config import ListenerConfig
from amqproxy.proxy.admission_queue import AdmissionQueue
from amqproxy.proxy.logins.login_check import Login

MOST_WAITING = 10_000
"""Maximum number of clients of one listener that wait to begin their handshake."""


class ListenerLoad:
    """Connections of one listener, and their limit; and the turns of its handshakes, if their rate is limited."""

    def __init__(self, config: ListenerConfig) -> None:
        self.connections = 0
        self.handshakes: AdmissionQueue | None = None
        self.apply(config)

    def apply(self, config: ListenerConfig) -> None:
        """Apply the limits of a config. Clients that wait keep their places, or pass at their former rate."""
        self.most = config.connections
        rate = config.handshakes_per_second
        if not rate:
            self.handshakes = None
        elif self.handshakes is None:
            self.handshakes = AdmissionQueue(rate, MOST_WAITING)
        else:
            self.handshakes.rate = rate

    @property
    def is_full(self) -> bool:
        return self.most is not None and self.connections >= self.most


class OpenListener:
    """A listening socket, its configuration, the TLS context of its clients, and the login at which they log in.

    `load` is what it has of clients; the sockets of one address share it.
    """

    def __init__(
        self,
        listener: trio.SocketListener,
        config: ListenerConfig | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
        load: ListenerLoad | None = None,
    ) -> None:
        """The default is a listener without TLS, limits and a login."""
        self.listener = listener
        self.config = config or ListenerConfig()
        self.tls = tls
        self.login = login
        self.load = load or ListenerLoad(self.config)

    def apply(self, config: ListenerConfig, tls: ssl.SSLContext | None, login: Login | None) -> None:
        """Serve further clients by another configuration of this address."""
        self.config, self.tls, self.login = config, tls, login
        self.load.apply(config)

    @property
    def takes_time(self) -> bool:
        """Whether something precedes the handshake of a client: a PROXY header, or a wait."""
        return self.config.proxy_protocol is not None or self.load.handshakes is not None
