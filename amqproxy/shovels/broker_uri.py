"""Brokers by AMQP URI, as RabbitMQ reads it: without a host, the URI is the broker that has the shovel."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.configuration.values import join_address

PORTS = {"amqp": 5672, "amqps": 5671}

CONNECTION_TIMEOUT = 60.0
"""Default time limit for connecting, in seconds, as in RabbitMQ."""

HEARTBEAT = 10
"""Heartbeat interval in seconds, unless the broker's is shorter; that of RabbitMQ's own client."""

LONGEST_HEARTBEAT = 65_535

MOST_PARAMETERS = 32


class BrokerURI(NamedTuple):
    """A broker with a virtual host and a login.

    `shown` is the URI without user and password. Without an `upstream`, it is this broker itself; without a `user` as
    well, the login is the broker's own, which may do everything. `timeout` is for connecting, in seconds. With a
    `heartbeat` of 0, the interval is the broker's.
    """

    shown: str
    vhost: str
    user: str | None
    password: str | None
    upstream: UpstreamConfig | None
    is_external: bool = False
    timeout: float = CONNECTION_TIMEOUT
    heartbeat: int = HEARTBEAT

    @property
    def address(self) -> str:
        """The broker's address, empty for this broker."""
        return "" if self.upstream is None else self.upstream.address


def parse_uri(uri: str) -> BrokerURI:
    """Parse an amqp or amqps URI; raise `ValueError` with a reason that never has the password."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
        query = parse_qs(parts.query, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise ValueError("a URI is malformed") from None
    if parts.scheme not in PORTS or "://" not in uri:
        raise ValueError("a URI begins with amqp:// or amqps://")
    if "@" in parts.path + parts.query + parts.fragment:  # as in amqp://user:pass/word@host
        raise ValueError("a URI has @ behind its host: write %40 there, and / ? # in passwords as %2F %3F %23")
    if "/" in parts.path[1:]:
        raise ValueError("a virtual host in a URI has %2F for each slash")
    values = {name: found[-1] for name, found in query.items()}
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    vhost = unquote(parts.path[1:]) if parts.path else "/"
    shown = without_credentials(uri)
    if not host:
        return BrokerURI(shown, vhost, user, password, None)
    try:
        heartbeat = int(values.get("heartbeat", HEARTBEAT))
        if not 0 <= heartbeat <= LONGEST_HEARTBEAT:
            raise ValueError("the heartbeat is out of range")
        timeout = float(values["connection_timeout"]) / 1000 if "connection_timeout" in values else CONNECTION_TIMEOUT
        upstream = UpstreamConfig(
            address=join_address(host, PORTS[parts.scheme] if port is None else port),
            tls=_tls(values) if parts.scheme == "amqps" else None,
        )
    except (ValueError, ConfigError):
        raise ValueError("a URI has an address or parameters that are not valid") from None
    return BrokerURI(
        shown,
        vhost,
        "guest" if user is None else user,
        "guest" if password is None else password,
        upstream,
        is_external=values.get("auth_mechanism", "").lower() == "external",
        timeout=timeout if 0 < timeout <= CONNECTION_TIMEOUT else CONNECTION_TIMEOUT,
        heartbeat=heartbeat,
    )


def without_credentials(uri: str) -> str:
    """Return a URI without user, password and parameters, as RabbitMQ shows it, also if it is malformed."""
    scheme, colon, rest = uri.partition("://")
    if not colon:
        return uri.partition(":")[0].rpartition("@")[2]
    end = next((place for place, character in enumerate(rest) if character in "/?#"), len(rest))
    if "@" in rest[end:]:  # what is before it may be a part of the password
        return scheme + colon
    path = rest[end:].partition("?")[0].partition("#")[0]
    return scheme + colon + rest[:end].rpartition("@")[2] + path


def _tls(values: dict[str, str]) -> ClientTLS:
    """Return the settings of TLS; unlike RabbitMQ 3.10, certificates are verified unless `verify` says otherwise."""
    return ClientTLS(
        ca=values.get("cacertfile"),
        certificate=values.get("certfile"),
        key=values.get("keyfile") if "certfile" in values else None,
        server_name=values.get("server_name_indication"),
        verify=values.get("verify") != "verify_none",
    )
