"""The types of the configuration, with their JSON Schema. Every bound has its name here; `config_file` reads it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.bridge import Bridge, bridge_rules
from amqproxy.rules.engine.validation import check
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import parse_network
from amqproxy.rules.observing.mirror import Mirror
from amqproxy.rules.units import duration, may_be_text, size

Seconds = Annotated[float, duration(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Size = Annotated[int, size(ge=1, le=2**63 - 1)]
FrameSize = Annotated[int, size(ge=4096, le=2**32 - 1)]

PORT = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|0*[0-9]{1,4})"
"""Port number as a regular expression in JSON Schema; the errors of `config_file` are plainer."""

Address = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}$",
        extra_json_schema={"allOf": [{"pattern": rf":{PORT}$"}]},
    ),
]
"""HOST:PORT or [IPV6]:PORT. Port 0 lets the system choose; an empty host is every interface."""

ListenAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^((\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}|fd@[^\s:]+)$",
        extra_json_schema={"anyOf": [{"pattern": rf":{PORT}$"}, {"pattern": "^fd@"}]},
    ),
]
"""An `Address`, or `fd@NAME`: a socket that systemd passes."""

RemoteAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}$",
        extra_json_schema={"allOf": [{"pattern": rf".:(?!0+$){PORT}$"}]},
    ),
]
"""HOST:PORT or [IPV6]:PORT, both of them named."""


def split_address(address: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT or [IPV6]:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether the address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _check_port(address: str) -> None:
    if split_address(address)[1] > 65535:
        raise ValueError(f"address {address} has a port above 65535")


def _check_broker_address(address: str) -> None:
    _check_port(address)
    host, port = split_address(address)
    if not host or not port:
        raise ValueError(f"address {address} does not name a broker: it needs a host and a port")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file; unknown keys are refused."""


class CertificateFiles(Strict, frozen=True):
    """A certificate and its key. Files are PEM."""

    certificate: str
    """The server's certificate, followed by the intermediate certificates."""
    key: str
    """The certificate's key, without a password."""


class ServerTLS(CertificateFiles, frozen=True):
    """TLS of a listener: its certificate, and the certificates required of clients. Files are PEM."""

    certificates: tuple[CertificateFiles, ...] = ()
    """Further certificates: a client that requests a server name gets the first certificate for that name; all others
    get `certificate`.
    """
    client_ca: str | None = None
    """With it, clients are asked for a certificate that this authority signed."""
    client_crl: str | None = None
    """A certificate revocation list of the `client_ca`: clients with a certificate on it are refused."""
    client_certificate: Literal["required", "optional"] = "required"
    """Whether clients without a certificate are refused if there is a `client_ca`; RabbitMQ's fail_if_no_peer_cert."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.client_certificate == "optional" and not self.client_ca:
            raise ValueError("an optional client_certificate needs the client_ca that has signed it")
        if self.client_crl and not self.client_ca:
            raise ValueError("a client_crl needs the client_ca that has signed it")

    @property
    def files(self) -> tuple[str, ...]:
        """All files, in the order in which they are read."""
        own = (self.certificate, self.key, *(each for each in (self.client_ca, self.client_crl) if each))
        return own + tuple(file for each in self.certificates for file in (each.certificate, each.key))


class ClientTLS(Strict, frozen=True):
    """TLS towards the broker: its verification, and the client certificate. Files are PEM."""

    ca: str | None = None
    """The authority that must have signed the broker's certificate; by default, the system's authorities."""
    server_name: str | None = None
    """The name that the certificate must have; by default, the upstream's host."""
    certificate: str | None = None
    """The client certificate, sent if the broker asks for one."""
    key: str | None = None
    """The certificate's key; needed unless it is in the same file."""
    verify: bool = True
    """Whether the broker's certificate is verified."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("a key needs the certificate that it belongs to")

    @property
    def files(self) -> tuple[str, ...]:
        """All files, in the order in which they are read."""
        return tuple(each for each in (self.ca, self.certificate, self.key) if each)


TLS = TypeVar("TLS", ServerTLS, ClientTLS)


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

    @property
    def passed_name(self) -> str | None:
        """Name or number of a socket passed by systemd; `None` if the proxy opens its own."""
        return self.address.removeprefix("fd@") if self.address.startswith("fd@") else None

    def __post_init__(self) -> None:
        if self.passed_name is None:
            _check_port(self.address)


class UpstreamConfig(Strict, frozen=True):
    """The broker to which connections are forwarded."""

    address: RemoteAddress = "127.0.0.1:5672"
    """HOST:PORT or [IPV6]:PORT."""
    tls: ClientTLS | None = None
    proxy_protocol: bool = False
    """Send the broker the client's address first; the broker must expect PROXY protocol, version 2."""
    bridge: Bridge | None = None
    """Rules for clients of earlier RabbitMQ versions: see docs/howto/bridge-to-rabbitmq-4.md."""

    def __post_init__(self) -> None:
        _check_broker_address(self.address)


class MemberConfig(Strict, frozen=True):
    """One broker of a group: its address, and its share of the clients."""

    address: RemoteAddress
    """HOST:PORT or [IPV6]:PORT."""
    weight: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """Its share of new clients, in proportion to the others' weights; 0 for none."""
    priority: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Members with a higher number take clients only if none with a lower one can."""
    zone: str = ""
    """Its zone, such as a data centre: see the group's `zone`."""
    tls: ClientTLS | None = None
    """TLS towards this member; by default, the group's `tls`."""
    proxy_protocol: bool | None = None
    """Whether this member is sent the client's address; by default, the group's `proxy_protocol`."""
    resolve: Literal["one", "all"] = "one"
    """Whether the host's addresses count as one member, of which any that answers is used, or as one member each."""

    def __post_init__(self) -> None:
        _check_broker_address(self.address)


class HealthCheck(Strict, frozen=True):
    """Active checks of a group's members: see docs/howto/run-several-brokers.md."""

    kind: Literal["tcp", "tls", "amqp", "http"] = "tcp"
    """A TCP connection; with the TLS handshake; a login by AMQP 0-9-1 with a proper close; or an answer of 200 to a GET
    of `url`.
    """
    interval: Seconds = 5.0
    """Time between two checks of a member."""
    timeout: Seconds = 2.0
    """Time for a check."""
    fall: Count = 3
    """Number of failures in a row after which a member is down."""
    rise: Count = 2
    """Number of successes in a row after which it is up again."""
    closes: bool = True
    """Whether the clients of a member that goes down are told 320 (connection-forced), if another member is up."""
    url: str = "http://{host}:15672/api/health/checks/ready-to-serve-clients"
    """The URL for `http`; {host} is the member's host."""
    user: str = ""
    """User of the login for `amqp` and `http`."""
    password_file: str = ""
    """A file with its password."""
    password_env: str = ""
    """The environment variable with its password."""
    vhost: str = "/"
    """The virtual host that `amqp` opens."""

    def __post_init__(self) -> None:
        if self.kind == "amqp" and not self.user:
            raise ValueError(
                ".user: an amqp check logs in, since RabbitMQ would log a warning for each check otherwise"
            )
        if bool(self.user) != bool(self.password_file or self.password_env) or (
            self.password_file and self.password_env
        ):
            raise ValueError("a `user` needs a `password_file` or a `password_env`")
        if self.kind == "http" and urlsplit(self.url).scheme != "http":
            raise ValueError(f".url: {self.url} does not begin with http://")


class Ejection(Strict, frozen=True):
    """Ejection of members to which connections fail: they take no new clients for a while."""

    failures: Count = 3
    """Number of failures in a row after which a member is ejected. Never is more than half of a group ejected."""
    time: Seconds = 10.0
    """Duration of the first ejection; each that follows soon lasts twice as long."""
    most: Seconds = 300.0
    """Longest duration of an ejection."""


class NamedUpstream(UpstreamConfig, frozen=True):
    """A broker, or a group of brokers, for clients or for copies that rules send."""

    members: tuple[MemberConfig, ...] = ()
    """The brokers of the group; without them, `address` is the only one."""
    selection: Literal["round_robin", "least_connections", "hash"] = "round_robin"
    """The member for a new client: each in turn, the one with the fewest connections, or the same one for each address
    of clients, by a hash.
    """
    zone: str = ""
    """The proxy's own zone: members of the same zone take its clients if they can."""
    connect_timeout: Seconds | None = None
    """Time for a member to accept and to answer, if another one is left; by default, `limits.connect_timeout`."""
    slow_start: Seconds = 30.0
    """Time in which a member that returns takes clients again in growing numbers."""
    check: HealthCheck | None = None
    """Active checks of the members; by default, members are judged by the connections of clients alone."""
    ejection: Ejection = Ejection()
    """Ejection of members to which connections fail."""
    rebalance_rate: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.0
    """Number of clients a second that are told 320 (connection-forced), to reconnect, while a member has a tenth more
    than its share, for instance after another one has returned; 0 for none.
    """
    resolve_interval: Seconds = 10.0
    """Time between two look-ups of the members with `resolve = "all"`."""
    user: str = "guest"
    """The user of the login with which rules send copies."""
    password_file: str = ""
    """A file with the password for copies."""
    password_env: str = ""
    """The environment variable with the password for copies."""
    vhost: str = ""
    """The virtual host for copies; by default, the client's own."""

    @property
    def takes_copies(self) -> bool:
        """Whether there is a login with which rules may send copies."""
        return bool(self.password_file or self.password_env)

    @property
    def all_members(self) -> tuple[MemberConfig, ...]:
        """The members, with the group's TLS and PROXY protocol where they have none of their own."""
        found = self.members or (MemberConfig(address=self.address),)
        return tuple(
            msgspec.structs.replace(
                each,
                tls=each.tls or self.tls,
                proxy_protocol=self.proxy_protocol if each.proxy_protocol is None else each.proxy_protocol,
            )
            for each in found
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bridge is not None:
            raise ValueError(".bridge: a bridge is for the clients of [upstream]")
        if self.password_file and self.password_env:
            raise ValueError("the password is in a file or in a variable: name `password_file` or `password_env`")
        addresses = [each.address for each in self.members]
        for place, address in enumerate(addresses):
            if address in addresses[:place]:
                raise ValueError(f".members[{place}].address: {address} is a member already")
        if self.members and self.takes_copies:
            raise ValueError(".members: copies go to one broker: give a group no password")


class RouteConfig(Strict, frozen=True):
    """A choice of the upstream for some clients, by what is known when they connect. All given keys must hold."""

    upstream: str
    """The name of the `[upstreams.NAME]` that takes these clients."""
    listener: ListenAddress | None = None
    """The `address` of the listener to which they connect, as `[[listen]]` has it."""
    sni: str | None = None
    """The server name that they request in TLS; *.example.com stands for all names below example.com."""
    when: str | None = None
    """A CEL expression over `client.address`, `client.port`, `listener`, `tls.subject` and `tls.sni`."""

    def __post_init__(self) -> None:
        if self.when is None:
            return
        try:
            names = compiled(self.when).names
        except ValueError as error:
            raise ValueError(f".when: {error}") from None
        unknown = sorted(names - ROUTABLE)
        if unknown:
            raise ValueError(
                f".when: `{unknown[0]}` is not known when a client connects; known are {', '.join(sorted(ROUTABLE))}"
            )


ROUTABLE = frozenset({"client.address", "client.port", "listener", "tls.subject", "tls.sni"})
"""Attributes of clients that routes may read."""


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
        _check_port(self.address)


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
    resource_attributes: dict[str, str] = {}
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
        _check_port(self.listen)
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


class BrokerConfig(Strict, frozen=True):
    """The integrated broker, for `amqproxy broker` and `upstream = "broker"`."""

    listen: tuple[ListenerConfig, ...] = ()
    """Listeners of the broker; by default, `amqproxy broker` listens on 127.0.0.1:5672."""
    data: str | None = None
    """The directory of the durable state; without it, all state is in memory."""
    definitions: str | None = None
    """A definitions.json to start with, as exported by RabbitMQ."""
    certificate_login: Literal["distinguished_name", "common_name"] = "distinguished_name"
    """The part of a client's certificate that names the user, for EXTERNAL: RabbitMQ's ssl_cert_login_from."""
    auth_mechanisms: (
        Annotated[tuple[Literal["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"], ...], msgspec.Meta(min_length=1)] | None
    ) = None
    """Login mechanisms for clients, by default those of the profile. EXTERNAL, if listed, is offered to clients with a
    certificate; ANONYMOUS is login as guest with the password guest.
    """
    profile: Literal["3.10", "4.0", "4.3"] = "4.3"
    """The RabbitMQ version whose behaviour the broker has: limits, refusals, texts, dead letters and the like."""
    deprecated_features: dict[str, bool] = {}
    """Whether a deprecated feature of that version may be used, by name: RabbitMQ's `deprecated_features.permit.*`."""
    plugins: tuple[Literal["rabbitmq_consistent_hash_exchange", "rabbitmq_delayed_message_exchange"], ...] = (
        "rabbitmq_consistent_hash_exchange",
        "rabbitmq_delayed_message_exchange",
    )
    """RabbitMQ plugins whose exchange types clients may declare: x-consistent-hash and x-delayed-message. Without
    them, both are refused as by a RabbitMQ without these plugins.
    """
    log_exchange: bool = False
    """Publish each log line to amq.rabbitmq.log too, with its level as the routing key: RabbitMQ's log.exchange."""
    limits: BrokerLimits = BrokerLimits()

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
    upstreams: dict[str, NamedUpstream] = {}
    """Further brokers and groups of brokers, by the names that listeners, routes and rules use."""
    routes: tuple[RouteConfig, ...] = ()
    """Choices of an upstream for some clients; the first that applies decides."""
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
        for place, name in self._named_upstreams():
            if name not in self.upstreams:
                raise ValueError(f".{place}: there is no `{name}`: it needs an [upstreams.{name}]")
            if place.startswith("rules") and not self.upstreams[name].takes_copies:
                raise ValueError(
                    f".{place}: [upstreams.{name}] takes no copies: it needs a `password_file` or a `password_env`"
                )

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
        """The `upstreams` that listeners, routes or `upstream` name, which clients may be routed to."""
        names = {name for place, name in self._named_upstreams() if not place.startswith("rules")}
        return {name: each for name, each in self.upstreams.items() if name in names}


class ConfigError(Exception):
    """Raised for a config file that is unreadable or invalid; the text has the place and the remedy."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a config file, with this module's docstrings of the keys."""
    found: dict[str, Any] = may_be_text(msgspec.json.schema(Config))
    definitions = found["$defs"]
    for name, described in _descriptions().items():
        properties = definitions.get(name, definitions.get(f"{__name__}.{name}"))["properties"]
        for key, text in described.items():
            if "$ref" in properties[key]:  # some readers ignore everything beside it
                properties[key] = {"allOf": [{"$ref": properties[key].pop("$ref")}], **properties[key]}
            properties[key]["description"] = text
    definitions["ClientTLS"]["dependentRequired"] = {"key": ["certificate"]}
    return found


def _descriptions() -> dict[str, dict[str, str]]:
    """Return, for each struct, the docstrings of its keys, or else of their types."""
    module = sys.modules[__name__]
    found: dict[str, dict[str, str]] = {}
    for each in ast.parse(inspect.getsource(module)).body:
        if isinstance(each, ast.ClassDef) and issubclass(getattr(module, each.name), Strict) and each.name != "Strict":
            texts = dict(found.get(ast.unparse(each.bases[0]), {}))  # a base comes before it in the module
            for statement, after in zip(each.body, [*each.body[1:], None], strict=True):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    match after:
                        case ast.Expr(ast.Constant(str(text))):
                            texts[statement.target.id] = text
                        case _:
                            texts[statement.target.id] = _docstring_of_type(statement)
            found[each.name] = texts
    return found


def _docstring_of_type(statement: ast.AnnAssign) -> str:
    """Return the docstring of the struct that is an annotation's first word."""
    kind = getattr(sys.modules[__name__], ast.unparse(statement.annotation).split(" ")[0])
    return inspect.getdoc(kind) or ""
