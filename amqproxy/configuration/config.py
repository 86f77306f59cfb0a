"""The types of the whole configuration and of its sections. `config_file` reads it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from amqproxy.configuration.login_config import LoginConfig
from amqproxy.configuration.tls_config import CertificateLogin, ServerTLS
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.configuration.upstream_config import NamedUpstream, RouteConfig, UpstreamConfig
from amqproxy.configuration.values import (
    Address,
    Count,
    FrameSize,
    ListenAddress,
    Seconds,
    Size,
    Strict,
    check_port,
    is_loopback,
    split_address,
)
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.bridge import bridge_rules
from amqproxy.rules.engine.validation import check
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import parse_network
from amqproxy.rules.observing.mirror import Mirror
from amqproxy.rules.units import duration, size

UpstreamName = Annotated[str, msgspec.Meta(pattern=r"^[^:]+$")]
"""A name of one of the `upstreams`, or "broker"."""

INTEGRATED = "broker"
"""The name of the integrated broker as an upstream."""


Unread: TypeAlias = Literal["pass", "refuse"] | None
"""Whether clients of protocols that are not decoded pass; `None`: unless rules decide about clients."""


class ProxyProtocolConfig(Strict, frozen=True):
    """The PROXY protocol, version 1 or 2, by which balancers in front of a listener tell who their client is."""

    networks: tuple[str, ...] = ()
    """Addresses of the balancers, and networks such as 10.0.0.0/8, from which headers are believed; by default from
    everywhere, so that any client can claim any address, and the log warns.
    """
    required: bool = True
    """Whether connections without a header, or from elsewhere, are closed. Otherwise they are clients of their own."""

    def __post_init__(self) -> None:
        for each in self.networks:
            parse_network(each)

    def believes(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether a header from this address is believed."""
        return not self.networks or any(address in parse_network(each) for each in self.networks)


class ListenerConfig(Strict, frozen=True):
    """A listener for clients."""

    address: ListenAddress = "127.0.0.1:5673"
    """HOST:PORT or [IPV6]:PORT. Port 0 picks a free port; an empty host is every interface. fd@NAME is a socket
    passed by systemd: its FileDescriptorName, or its number.
    """
    tls: ServerTLS | None = None
    proxy_protocol: ProxyProtocolConfig | None = None
    """With it, connections begin with a PROXY header, before TLS; its client is the one that rules and logs name."""
    unread: Unread = None
    """Whether clients of protocols that the proxy does not decode, such as AMQP 1.0, pass unread, or are refused. By
    default they pass, unless there are rules that decide about clients, which they would evade.
    """
    upstream: str | None = None
    """The name of the `[upstreams.NAME]` that takes the clients of this listener, unless `routes` choose another."""
    connections: Count | None = None
    """Maximum number of simultaneous connections of this listener, in addition to `limits.connections`."""
    handshakes_per_second: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    """Number of clients a second that may begin their handshake, with or without TLS; others wait, in a queue that is
    fair to their addresses. 0 for no limit. Times `limits.tls_handshake_timeout`, it bounds the TLS handshakes at once.
    """
    login: str | None = None
    """The name of the `[logins.NAME]` by which clients log in at the proxy. By default, brokers check their logins."""

    @property
    def passed_name(self) -> str | None:
        """Name or number of a socket passed by systemd; `None` if the proxy opens its own."""
        return self.address.removeprefix("fd@") if self.address.startswith("fd@") else None

    def __post_init__(self) -> None:
        if self.passed_name is None:
            check_port(self.address)


class SwitchingConfig(Strict, frozen=True):
    """Switches between upstreams: see docs/howto/switch-brokers.md."""

    state: Annotated[str, msgspec.Meta(min_length=1)]
    """The file in which switches are kept. Its directory must exist, and last: without the file, clients would be led
    back to the broker that their messages have left.
    """


class MetricsConfig(Strict, frozen=True):
    """The Prometheus endpoint at /metrics."""

    address: Address
    """HOST:PORT or [IPV6]:PORT. Port 0 picks a free port; an empty host is every interface."""
    messages: bool = True
    """Whether messages are counted and their latencies measured."""
    by: tuple[Literal["user", "vhost", "exchange", "queue"], ...] = ()
    """Labels by which messages are also counted. This decodes each frame."""
    max_series: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Maximum number of combinations of these labels; further ones are counted as "other"."""
    findings: bool = False
    """Whether findings are counted. This decodes each frame."""

    def __post_init__(self) -> None:
        check_port(self.address)


class RecordConfig(Strict, frozen=True):
    """Recording of the traffic in pcapng files: see docs/captures.md."""

    directory: Annotated[str, msgspec.Meta(min_length=1)]
    """The directory of the files, created if its parent exists."""
    at_start: bool = True
    """Whether recording begins with the proxy. `amqproxy record start` begins it at any time."""
    legs: Literal["both", "client", "upstream"] = "both"
    """Whether both connections of a session are recorded, or the client's or the broker's alone."""
    filter: str | None = None
    """Record only the commands for which this CEL expression holds, and the opening and closing of their channels."""
    body: Annotated[int, size(ge=0, le=2**63 - 1)] | None = None
    """Recorded bytes of each body frame, from its start; by default, all."""
    file_size: Annotated[int, size(ge=65_536, le=2**63 - 1)] = 268_435_456
    """Size in bytes after which the next file begins."""
    file_age: Annotated[float, duration(gt=0)] = 3600.0
    """Age in seconds after which the next file begins."""
    files: Count | None = None
    """Maximum number of files, including the current one; the oldest is deleted."""
    total_size: Annotated[int, size(ge=65_536, le=2**63 - 1)] | None = 10_737_418_240
    """Maximum size of all files in bytes; the oldest is deleted. null for no limit."""
    compress: bool = True
    """Whether complete files are compressed with zstd."""
    when_full: Literal["drop", "wait"] = "drop"
    """If the disk is too slow: "drop" and count frames, or let clients and brokers "wait"."""
    memory: Size = 67_108_864
    """Maximum number of bytes that wait to be written."""

    def __post_init__(self) -> None:
        if self.filter is not None:
            try:
                compiled(self.filter)
            except ValueError as error:
                raise ValueError(f".filter: {error}") from None


class OpenTelemetryConfig(Strict, frozen=True):
    """Export of message spans and metrics; needs the extra `amqproxy[otel]`: see docs/opentelemetry.md."""

    endpoint: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": r"^https?://[^/?#@\s]+([/?]\S*)?$"})] = (
        "http://localhost:4318"
    )
    """The URL of a collector that accepts OTLP over HTTP, in protobuf; /v1/traces is added if it has no path. Metrics
    go to /v1/metrics there.
    """
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """Share of the traces whose messages get a span; traces that the publisher did not sample get none. With 0, there
    are metrics alone, which cost no message anything.
    """
    metrics: bool = True
    """Whether metrics are exported, unless `[metrics] messages` is off."""
    metrics_interval: Seconds = 60.0
    """Time between two exports of metrics."""
    service_name: Annotated[str, msgspec.Meta(min_length=1)] = "amqproxy"
    """The attribute `service.name` of all spans."""
    resource_attributes: dict[str, str] = msgspec.field(default_factory=dict)
    """Further attributes of all spans, such as `deployment.environment.name`."""

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)  # raises ValueError for an invalid URL
        if url.username is not None:
            raise ValueError(".endpoint: credentials are not allowed here: put them into OTEL_EXPORTER_OTLP_HEADERS")
        if url.scheme not in ("http", "https") or not url.hostname or url.port == 0 or " " in self.endpoint:
            raise ValueError(f".endpoint: {self.endpoint} is not the URL of a collector, such as http://localhost:4318")


class ControlConfig(Strict, frozen=True):
    """Control socket for `amqproxy control` and other programs: see docs/control.md."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    """Path of the Unix socket, which is created there, accessible only to its owner."""
    ring: Annotated[int, size(ge=0, le=2**63 - 1)] = 0
    """Bytes of earlier traffic that are kept for new followers; 0 for none."""


class DashboardConfig(Strict, frozen=True):
    """The dashboard that runs beside the proxy; needs the extra `amqproxy[dashboard]`: see docs/dashboard.md."""

    listen: Address = "127.0.0.1:8672"
    """HOST:PORT or [IPV6]:PORT. Other machines can only be let in with a token or a password."""
    read_only: bool = False
    """Whether it is read-only: no closing, pausing, releasing, recording or changing."""
    token_file: str = ""
    """A file with the token that browsers must present."""
    token_env: str = ""
    """The environment variable with the token."""
    password_file: str = ""
    """A file with the login password."""
    password_env: str = ""
    """The environment variable with the password."""
    certificate: str | None = None
    """The certificate in PEM; the dashboard then uses HTTPS."""
    key: str | None = None
    """The certificate's key, in PEM, without a password."""
    hosts: tuple[str, ...] = ()
    """Host names of the dashboard, besides its address."""
    ring: Size = 67_108_864
    """Bytes of traffic history that it keeps."""
    tables: str = ""
    """The tables of the pipeline, for Analytics: a directory, or s3://BUCKET/PATH. Needs `amqproxy[analytics]`."""

    def __post_init__(self) -> None:
        check_port(self.listen)
        host = split_address(self.listen)[0]
        secrets = [name for name in ("token_file", "token_env", "password_file", "password_env") if getattr(self, name)]
        if len(secrets) > 1:
            raise ValueError(f".{secrets[0]}: {secrets[1]} is given too: keep only one")
        if not (secrets or is_loopback(host)):
            raise ValueError(
                ".listen: other machines can reach this address: that needs a `token_file` or a `password_file`; or "
                "listen on 127.0.0.1"
            )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a `certificate` needs its `key`, and a key its certificate")


class LogConfig(Strict, frozen=True):
    """Log on standard error."""

    format: Literal["text", "json"] = "text"
    """Text lines, or one JSON object per line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of events to log."""


class Limits(Strict, frozen=True):
    """All bounds of the proxy; times in seconds, or like "1.5s", sizes in bytes, or like "64KiB"."""

    connections: Count = 10_000
    """Maximum number of simultaneous client connections; further ones are closed at once."""
    connect_timeout: Seconds = 10.0
    """Time for the upstream to accept, including TLS."""
    tls_handshake_timeout: Seconds = 5.0
    """Time for a client to finish the TLS handshake."""
    handshake_timeout: Seconds = 15.0
    """Time from a client's connection to connection.open-ok."""
    close_timeout: Seconds = 5.0
    """Time for a peer to answer connection.close, or to close its half after the other side has."""
    send_timeout: Seconds = 30.0
    """Time for a client to accept at least a part of the data sent to it; then it is reset."""
    upstream_send_timeout: Seconds = 1800.0
    """Like `send_timeout`, for an upstream without heartbeats. One with heartbeats may stall as long as they arrive."""
    drain_timeout: Seconds = 30.0
    """Time from SIGTERM to the end, whatever is still open."""
    initial_frame_max: FrameSize = 131_072
    """Largest frame before connection.tune-ok; tokens can make start-ok large."""
    frame_max: FrameSize = 16_777_216
    """Largest accepted frame, even if the peers agreed on more, or on no limit; and the largest content header of a
    broker, whatever they agreed on: RabbitMQ limits only the bodies that it sends.
    """
    memory: Size = 536_870_912
    """Memory of all sessions in bytes, for incomplete frames, and for messages that rules read or delay."""
    session_memory: Size = 67_108_864
    """Memory of one session; none may take more than is left free for the others. Excess data is refused, or not
    read.
    """
    rule_body: Size = 1_048_576
    """Largest body that rules and filters read as text or JSON, since no other connection is served meanwhile."""
    print_backlog: Count = 1_000_000
    """Maximum number of records waiting to be printed; further ones are dropped and counted."""
    print_memory: Size = 67_108_864
    """Bytes of records waiting to be printed, and of messages that `--filter` has not decided about; excess is
    dropped.
    """
    opentelemetry_spans: Count = 10_000
    """Maximum number of message spans that are open or wait for export; further ones are dropped and counted."""
    opentelemetry_memory: Size = 67_108_864
    """Bytes of these spans, and likewise of the traces that they are made of; further spans are dropped."""
    mirror_backlog: Count = 10_000
    """Maximum number of copies waiting to be sent to a broker with one login; further ones are dropped and counted."""
    mirror_memory: Size = 134_217_728
    """Bytes of all copies waiting to be sent; no login may take more than is left free, further copies are dropped."""


class BrokerLimits(Strict, frozen=True):
    """Bounds of the integrated broker; times in seconds, or like "1.5s", sizes in bytes, or like "64KiB"."""

    connections: Count = 10_000
    """Maximum number of simultaneous client connections; further ones are closed at once."""
    memory: Size | None = None
    """Memory of the process above which publishers are blocked; by default, four tenths of the machine's memory."""
    disk_free: Annotated[int, size(ge=0, le=2**63 - 1)] = 50_000_000
    """Free disk space at `data` below which publishers are blocked."""
    channel_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 2047
    """Maximum number of channels of one connection."""
    frame_max: FrameSize = 131_072
    """Largest frame offered to clients."""
    heartbeat: Annotated[int, duration(ge=0, le=65_535)] = 60
    """Heartbeat interval offered to clients, in seconds; 0 for none."""
    message_size: Size | None = None
    """Largest message body; by default, that of the profile's RabbitMQ version: 128 MiB, and from 4.0 on 16 MiB."""
    consumer_timeout: Seconds | None = 1800.0
    """Time for which a client may hold a message before its channel is closed; null for ever. Checked once a minute."""
    dtx_timeout: Annotated[int, duration(ge=0, le=2**31 - 1)] = 60
    """Time for a client to prepare a branch of a distributed transaction, unless it sets a timeout; 0 for ever."""
    dtx_branches: Count = 10_000
    """Maximum number of distributed transaction branches per user and virtual host; a further one is refused with
    506.
    """
    interrupted_messages: Count = 1000
    """Maximum number of messages per user and virtual host that wait for a message.resume; others are dropped."""
    interrupted_memory: Size = 67_108_864
    """Bytes of these messages."""
    detached_sessions: Count = 1000
    """Maximum number of detached sessions per user and virtual host; a further one ends at once."""
    close_timeout: Seconds = 5.0
    """Time from SIGTERM to the end for clients to answer connection.close."""


HeaderText = Annotated[str, msgspec.Meta(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=4096)]
"""The value of a header of HTTP: printable ASCII."""


class ManagementConfig(Strict, frozen=True):
    """RabbitMQ's management HTTP API for the integrated broker; needs the extra `amqproxy[dashboard]`: see
    docs/management.md.
    """

    listen: Address = "127.0.0.1:15672"
    """HOST:PORT or [IPV6]:PORT. The user guest can log in from this machine only."""
    certificate: str | None = None
    """The certificate in PEM; the API then uses HTTPS."""
    key: str | None = None
    """The certificate's key, in PEM, without a password."""
    cors_origins: tuple[HeaderText, ...] = ()
    """Origins, such as "https://ops.example:8443", whose pages may use the API, or "*" for all: RabbitMQ's
    management.cors.allow_origins.
    """
    cors_max_age: Seconds | None = 1800.0
    """Time for which a browser may remember that it may: RabbitMQ's management.cors.max_age."""
    content_security_policy: HeaderText = "script-src 'self'; object-src 'self'"
    """The header Content-Security-Policy: RabbitMQ's management.csp.policy."""
    strict_transport_security: HeaderText | None = None
    """The header Strict-Transport-Security: RabbitMQ's management.hsts.policy."""
    frame_options: HeaderText | None = None
    """The header X-Frame-Options: RabbitMQ's management.headers.frame_options."""
    metrics_without_login: bool = False
    """Show /metrics to everybody, as RabbitMQ does on its port 15692, and not only to users with the tag monitoring."""

    def __post_init__(self) -> None:
        check_port(self.listen)
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a `certificate` needs its `key`, and a key its certificate")


class BrokerConfig(Strict, frozen=True):
    """The integrated broker, for `amqproxy broker` and `upstream = "broker"`."""

    listen: tuple[ListenerConfig, ...] = ()
    """Listeners of the broker; by default, `amqproxy broker` listens on 127.0.0.1:5672."""
    data: str | None = None
    """The directory of the durable state; without it, all state is in memory."""
    definitions: str | None = None
    """A definitions.json to start with, as exported by RabbitMQ."""
    certificate_login: CertificateLogin = "distinguished_name"
    """The part of a client's certificate that names the user, for EXTERNAL: RabbitMQ's ssl_cert_login_from, or the
    first alternative name of this kind, its ssl_cert_login_san_type.
    """
    auth_mechanisms: (
        Annotated[tuple[Literal["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"], ...], msgspec.Meta(min_length=1)] | None
    ) = None
    """Login mechanisms for clients, by default those of the profile. EXTERNAL, if listed, is offered to clients with a
    certificate; ANONYMOUS is login as guest with the password guest.
    """
    profile: Literal["3.10", "4.0", "4.3"] = "4.3"
    """The RabbitMQ version whose behaviour the broker has: limits, refusals, texts, dead letters and the like."""
    deprecated_features: dict[str, bool] = msgspec.field(default_factory=dict)
    """Whether a deprecated feature of that version may be used, by name: RabbitMQ's `deprecated_features.permit.*`."""
    plugins: tuple[
        Literal["rabbitmq_consistent_hash_exchange", "rabbitmq_delayed_message_exchange", "rabbitmq_shovel"], ...
    ] = (
        "rabbitmq_consistent_hash_exchange",
        "rabbitmq_delayed_message_exchange",
        "rabbitmq_shovel",
    )
    """RabbitMQ plugins. Two have exchange types that clients may declare, x-consistent-hash and x-delayed-message,
    which are refused without them as by a RabbitMQ without these plugins. With rabbitmq_shovel, `amqproxy broker` runs
    the shovels that are set as parameters; without it, they are kept, and do not run.
    """
    log_exchange: bool = False
    """Publish each log line to amq.rabbitmq.log too, with its level as the routing key: RabbitMQ's log.exchange."""
    limits: BrokerLimits = BrokerLimits()
    management: ManagementConfig | None = None
    tokens: BrokerTokens | None = None

    def __post_init__(self) -> None:
        PROFILES[self.profile].switching(self.deprecated_features)


class Config(Strict, frozen=True):
    """The whole configuration."""

    listen: Annotated[tuple[ListenerConfig, ...], msgspec.Meta(extra_json_schema={"minItems": 1})] = (ListenerConfig(),)
    """The proxy's listeners."""
    upstream: UpstreamConfig | UpstreamName = UpstreamConfig()
    """The broker to which connections are forwarded; "broker" is the integrated one, in this process; another name is
    that of one of the `upstreams`.
    """
    broker: BrokerConfig = BrokerConfig()
    upstreams: dict[str, NamedUpstream] = msgspec.field(default_factory=dict)
    """Further brokers and groups of brokers, by the names that listeners, routes and rules use."""
    logins: dict[str, LoginConfig] = msgspec.field(default_factory=dict)
    """Ways in which clients log in at the proxy, by the names that listeners use."""
    routes: tuple[RouteConfig, ...] = ()
    """Choices of an upstream for some clients; the first that applies decides."""
    switching: SwitchingConfig | None = None
    metrics: MetricsConfig | None = None
    opentelemetry: OpenTelemetryConfig | None = None
    record: RecordConfig | None = None
    control: ControlConfig | None = None
    dashboard: DashboardConfig | None = None
    log: LogConfig = LogConfig()
    limits: Limits = Limits()
    threads: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None
    """Number of pumps: threads that relay, without Python, the traffic that no rule and no tap reads. With 0, the
    event loop relays everything. TLS connections stay there. Only if amqproxy is compiled, on Linux. By default, one
    fewer than the cores that it may use, including a CPU quota, at most 4.
    """
    rules: tuple[AnyRule, ...] = ()
    """Rules, in evaluation order."""
    seed: int | None = None
    """Seed of the random numbers for rules: with it, each run draws the same ones."""

    @property
    def bridging(self) -> tuple[AnyRule, ...]:
        """Rules of the upstream's bridge, except those that `rules` replaces."""
        if not isinstance(self.upstream, UpstreamConfig) or self.upstream.bridge is None:
            return ()
        names = {rule.name for rule in self.rules}
        return tuple(rule for rule in bridge_rules(self.upstream.bridge) if rule.name not in names)

    def __post_init__(self) -> None:
        if isinstance(self.upstream, UpstreamConfig) and self.upstream.address in {
            each.address for each in self.listen
        }:
            raise ValueError(
                f"upstream is {self.upstream.address}, which is a listener of this proxy: name the broker's address"
            )
        check(self.rules)
        if isinstance(self.upstream, UpstreamConfig) and "main" in self.clients_upstreams:
            raise ValueError(".upstreams.main: this is the name of [upstream]: choose another")
        for number, listener in enumerate(self.listen):
            if listener.login is not None and listener.login not in self.logins:
                login = listener.login
                raise ValueError(f".listen[{number}].login: there is no `{login}`: it needs a [logins.{login}]")
        for number, route in enumerate(self.routes):
            of_route = [each for each in self.listen if route.listener in (None, each.address)]
            if route.needs_login and not any(each.login for each in of_route):
                raise ValueError(
                    f".routes[{number}]{route.needs_login}: this is known only of clients that log in at the proxy: "
                    "give their listener a `login`"
                )
        for place, name in self._named_upstreams():
            if name not in self.upstreams:
                raise ValueError(f".{place}: there is no `{name}`: it needs an [upstreams.{name}]")
            if place.startswith("rules") and not self.upstreams[name].takes_copies:
                why = "it needs a `password_file` or a `password_env`"
                if self.upstreams[name].members:
                    why = "copies go to one broker, and it is a group"
                raise ValueError(f".{place}: [upstreams.{name}] takes no copies: {why}")

    def _named_upstreams(self) -> Iterator[tuple[str, str]]:
        """Yield the places that name one of the `upstreams`, with the names."""
        if isinstance(self.upstream, str) and self.upstream != INTEGRATED:
            yield "upstream", self.upstream
        for place, listener in enumerate(self.listen):
            if listener.upstream is not None:
                yield f"listen[{place}].upstream", listener.upstream
        for place, route in enumerate(self.routes):
            yield f"routes[{place}].upstream", route.upstream
        for place, rule in enumerate(self.rules):
            if isinstance(rule, Mirror) and rule.upstream is not None:
                yield f"rules[{place}].upstream", rule.upstream

    @property
    def clients_upstreams(self) -> dict[str, NamedUpstream]:
        """The `upstreams` that clients may be routed to: those that listeners, routes or `upstream` name, and switches
        could.
        """
        names = {name for place, name in self._named_upstreams() if not place.startswith("rules")}
        if self.switching is not None:
            names |= {name for name, each in self.upstreams.items() if each.has_login}
        return {name: each for name, each in self.upstreams.items() if name in names}


class ConfigError(Exception):
    """Raised for a config file that is unreadable or invalid; the text has the place and the remedy."""
