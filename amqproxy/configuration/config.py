"""What can be configured, as types, with their JSON Schema. Every bound has its name here; `config_file` reads it."""

from __future__ import annotations

import ast
import inspect
import sys
from ipaddress import ip_address
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.validation import check
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.observing.mirror import Mirror
from amqproxy.rules.units import duration, may_be_text, size

Seconds = Annotated[float, duration(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Size = Annotated[int, size(ge=1, le=2**63 - 1)]
FrameSize = Annotated[int, size(ge=4096, le=2**32 - 1)]

PORT = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|0*[0-9]{1,4})"
"""As a regular expression of JSON Schema; the errors of `config_file` are plainer."""

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
    """The host and port of HOST:PORT or [IPV6]:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Can it be reached from this machine alone?"""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _check_port(address: str) -> None:
    if split_address(address)[1] > 65535:
        raise ValueError(f"address {address} has a port above 65535")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file; keys that it does not have are refused."""


class ServerTLS(Strict, frozen=True):
    """What a listener shows its clients, and asks of them. Files are PEM."""

    certificate: str
    """The server's certificate, and those between it and its authority."""
    key: str
    """The certificate's key, without a password."""
    client_ca: str | None = None
    """With it, clients are asked for a certificate that this authority signed."""
    client_certificate: Literal["required", "optional"] = "required"
    """Whether clients without one are turned away where there is a `client_ca`; RabbitMQ's fail_if_no_peer_cert."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.client_certificate == "optional" and not self.client_ca:
            raise ValueError("an optional client_certificate needs the client_ca that has signed it")


class ClientTLS(Strict, frozen=True):
    """How the broker is checked, and what it is shown. Files are PEM."""

    ca: str | None = None
    """The authority that must have signed the broker's certificate; the system's where absent."""
    server_name: str | None = None
    """The name the certificate must bear; the upstream's host where absent."""
    certificate: str | None = None
    """What the broker is shown, where it asks for a certificate."""
    key: str | None = None
    """The certificate's key; needed unless it is in the same file."""
    verify: bool = True
    """Whether the broker's certificate is checked at all."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("a key needs the certificate that it belongs to")


TLS = TypeVar("TLS", ServerTLS, ClientTLS)


class ListenerConfig(Strict, frozen=True):
    """Where clients connect."""

    address: ListenAddress = "127.0.0.1:5673"
    """HOST:PORT or [IPV6]:PORT. Port 0 takes a free one; an empty host is every interface. fd@NAME is a socket that
    systemd passes: its FileDescriptorName, or its number."""
    tls: ServerTLS | None = None

    @property
    def passed_name(self) -> str | None:
        """The name or number of a socket that systemd passes; None where it is ours to open."""
        return self.address.removeprefix("fd@") if self.address.startswith("fd@") else None

    def __post_init__(self) -> None:
        if self.passed_name is None:
            _check_port(self.address)


class UpstreamConfig(Strict, frozen=True):
    """The broker that connections are passed on to."""

    address: RemoteAddress = "127.0.0.1:5672"
    """HOST:PORT or [IPV6]:PORT."""
    tls: ClientTLS | None = None
    proxy_protocol: bool = False
    """Send the broker the client's address, ahead of everything else: it must expect PROXY protocol, version 2."""

    def __post_init__(self) -> None:
        _check_port(self.address)
        host, port = split_address(self.address)
        if not host or not port:
            raise ValueError(f"address {self.address} leaves open which broker is meant: name its host and its port")


class NamedUpstream(UpstreamConfig, frozen=True):
    """A broker that rules send copies to, and how we log in there."""

    user: str = "guest"
    """Who we are there."""
    password_file: str = ""
    """A file with the password."""
    password_env: str = ""
    """The environment variable with the password."""
    vhost: str = ""
    """The virtual host; the client's own where absent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.password_file) == bool(self.password_env):
            raise ValueError("the password is in a file or in a variable: name `password_file` or `password_env`")


class MetricsConfig(Strict, frozen=True):
    """Where Prometheus finds /metrics."""

    address: Address
    """HOST:PORT or [IPV6]:PORT. Port 0 takes a free one; an empty host is every interface."""
    messages: bool = True
    """Whether messages are counted, and how long they are open is measured."""
    by: tuple[Literal["user", "vhost", "exchange", "queue"], ...] = ()
    """Labels by which messages are counted too. Each frame has to be looked at for that."""
    max_series: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Combinations of these labels; what is beyond is counted as "other"."""
    findings: bool = False
    """Whether findings are counted. Each frame has to be looked at for that."""

    def __post_init__(self) -> None:
        _check_port(self.address)


class RecordConfig(Strict, frozen=True):
    """Where what passes is recorded, in pcapng files: see docs/captures.md."""

    directory: Annotated[str, msgspec.Meta(min_length=1)]
    """Where the files are; it is made if its parent exists."""
    at_start: bool = True
    """Whether recording begins with the proxy. `amqproxy record start` begins it at any time."""
    legs: Literal["both", "client", "upstream"] = "both"
    """Whether both connections of a session are recorded, or the client's or the broker's alone."""
    filter: str | None = None
    """Record only the commands for which this CEL expression holds, and what opens and closes their channels."""
    body: Annotated[int, size(ge=0, le=2**63 - 1)] | None = None
    """Bytes of each body frame that are recorded, from its start; all where absent."""
    file_size: Annotated[int, size(ge=65_536, le=2**63 - 1)] = 268_435_456
    """After so many bytes, the next file begins."""
    file_age: Annotated[float, duration(gt=0)] = 3600.0
    """Seconds after which the next file begins."""
    files: Count | None = None
    """So many files are kept, the one that is being written included; the oldest is deleted."""
    total_size: Annotated[int, size(ge=65_536, le=2**63 - 1)] | None = 10_737_418_240
    """Bytes that all files may take; the oldest is deleted. null for no bound."""
    compress: bool = True
    """Whether files are compressed with zstd once they are complete."""
    when_full: Literal["drop", "wait"] = "drop"
    """What happens where the disk is too slow: frames are not recorded, and counted, or clients and brokers wait."""
    memory: Size = 67_108_864
    """Bytes of what waits to be written."""

    def __post_init__(self) -> None:
        if self.filter is not None:
            try:
                compiled(self.filter)
            except ValueError as error:
                raise ValueError(f".filter: {error}") from None


class OpenTelemetryConfig(Strict, frozen=True):
    """Where a span for each message is exported to; needs the extra `amqproxy[otel]`: see docs/opentelemetry.md."""

    endpoint: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": r"^https?://[^/?#@\s]+([/?]\S*)?$"})] = (
        "http://localhost:4318"
    )
    """The URL of a collector that takes OTLP over HTTP, in protobuf; /v1/traces is added where it has no path."""
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """The share of the traces whose messages get a span; none that its publisher has not sampled."""
    service_name: Annotated[str, msgspec.Meta(min_length=1)] = "amqproxy"
    """The attribute `service.name` of all spans."""
    resource_attributes: dict[str, str] = {}
    """Further attributes of all spans, such as `deployment.environment.name`."""

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)  # a ValueError of its own where it is no URL at all
        if url.username is not None:
            raise ValueError(".endpoint: a password has no place here: put it into OTEL_EXPORTER_OTLP_HEADERS")
        if url.scheme not in ("http", "https") or not url.hostname or url.port == 0 or " " in self.endpoint:
            raise ValueError(f".endpoint: {self.endpoint} is no URL of a collector, such as http://localhost:4318")


class ControlConfig(Strict, frozen=True):
    """Where `amqproxy control`, and other programs, ask this proxy: see docs/control.md."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    """A Unix socket, which is made there, for its owner only."""
    ring: Annotated[int, size(ge=0, le=2**63 - 1)] = 0
    """Bytes of what has passed that are kept, for those who follow it from before they came; 0 for none."""


class DashboardConfig(Strict, frozen=True):
    """The dashboard that runs beside the proxy; needs the extra `amqproxy[dashboard]`: see docs/dashboard.md."""

    listen: Address = "127.0.0.1:8672"
    """HOST:PORT or [IPV6]:PORT. Other machines can only be let in with a token or a password."""
    read_only: bool = False
    """Whether it only shows, and closes, pauses, releases, records and changes nothing."""
    token_file: str = ""
    """A file with the token that a browser has to show."""
    token_env: str = ""
    """The environment variable with it."""
    password_file: str = ""
    """A file with the password that people log in with."""
    password_env: str = ""
    """The environment variable with it."""
    certificate: str | None = None
    """In PEM: the dashboard then speaks HTTPS."""
    key: str | None = None
    """The certificate's key, in PEM, without a password."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers reach it, besides the address."""
    ring: Size = 67_108_864
    """Bytes of what has passed that it keeps."""
    tables: str = ""
    """The tables of the pipeline, for Analytics: a directory, or s3://BUCKET/PATH. Needs `amqproxy[analytics]`."""

    def __post_init__(self) -> None:
        _check_port(self.listen)
        host = split_address(self.listen)[0]
        secrets = [name for name in ("token_file", "token_env", "password_file", "password_env") if getattr(self, name)]
        if len(secrets) > 1:
            raise ValueError(f".{secrets[0]}: there is a {secrets[1]}, too: one is enough")
        if not (secrets or is_loopback(host)):
            raise ValueError(
                ".listen: other machines can reach this address: that needs a `token_file` or a `password_file`; or "
                "listen on 127.0.0.1"
            )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a `certificate` needs its `key`, and a key its certificate")


class LogConfig(Strict, frozen=True):
    """How the log on standard error is written."""

    format: Literal["text", "json"] = "text"
    """Lines for a person, or one JSON object a line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events to log."""


class Limits(Strict, frozen=True):
    """Every bound there is; times in seconds, or like "1.5s", sizes in bytes, or like "64KiB"."""

    connections: Count = 10_000
    """Client connections at a time; more are closed at once."""
    connect_timeout: Seconds = 10.0
    """For the upstream to accept, TLS included."""
    tls_handshake_timeout: Seconds = 5.0
    """For a client to finish the TLS handshake."""
    handshake_timeout: Seconds = 15.0
    """From a client's connecting to connection.open-ok."""
    close_timeout: Seconds = 5.0
    """For a peer to answer connection.close, or to close its half after the other has."""
    send_timeout: Seconds = 30.0
    """For a client to take at least something of what is sent to it; it is reset after that."""
    upstream_send_timeout: Seconds = 1800.0
    """The same for an upstream without heartbeats. One with them may take nothing for as long as they come."""
    drain_timeout: Seconds = 30.0
    """From SIGTERM to the end, whatever is still open."""
    initial_frame_max: FrameSize = 131_072
    """The largest frame before connection.tune-ok has set one; tokens can make start-ok large."""
    frame_max: FrameSize = 16_777_216
    """The largest frame taken, also where the peers have agreed on more, or on no limit; and the largest content header
    of a broker, whatever they have agreed on: RabbitMQ bounds only the bodies that it sends."""
    memory: Size = 536_870_912
    """Bytes kept in all sessions: of frames that are not whole yet, and of messages that rules wait for or let wait."""
    session_memory: Size = 67_108_864
    """The same in one session; none may keep more than is left free for the others. More is refused, or not read."""
    rule_body: Size = 1_048_576
    """The largest body that rules and filters look into, as text or JSON; no other connection is served meanwhile."""
    print_backlog: Count = 1_000_000
    """Records waiting to be printed; more are dropped, and counted."""
    print_memory: Size = 67_108_864
    """Bytes of records waiting to be printed, and of messages kept until `--filter` can decide; more are dropped."""
    opentelemetry_spans: Count = 10_000
    """Spans of messages that are open or wait to be exported; more are dropped, and counted."""
    opentelemetry_memory: Size = 67_108_864
    """Bytes of these spans, and as many of the traces that they are made of; more spans are dropped."""
    mirror_backlog: Count = 10_000
    """Copies waiting to be sent to a broker with one login; more are dropped, and counted."""
    mirror_memory: Size = 134_217_728
    """Bytes of all copies waiting to be sent; no login's may be more than what is left free, the rest is dropped."""


class BrokerLimits(Strict, frozen=True):
    """The bounds of the integrated broker; times in seconds, or like "1.5s", sizes in bytes, or like "64KiB"."""

    connections: Count = 10_000
    """Client connections at a time; more are closed at once."""
    memory: Size | None = None
    """In use by this process, above which publishers are held up; four tenths of all memory where absent."""
    disk_free: Annotated[int, size(ge=0, le=2**63 - 1)] = 50_000_000
    """Free where `data` is, below which publishers are held up."""
    channel_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 2047
    """Channels of one connection."""
    frame_max: FrameSize = 131_072
    """The largest frame that clients are offered."""
    heartbeat: Annotated[int, duration(ge=0, le=65_535)] = 60
    """Seconds between heartbeats that clients are offered; 0 for none."""
    message_size: Size = 134_217_728
    """The largest body of a message."""
    consumer_timeout: Seconds | None = 1800.0
    """That a client may hold a message before its channel is closed; null for ever. It is looked once a minute."""
    dtx_timeout: Annotated[int, duration(ge=0, le=2**31 - 1)] = 60
    """That a client has to prepare a branch of a distributed transaction, where it sets no timeout; 0 for ever."""
    dtx_branches: Count = 10_000
    """Branches of distributed transactions of one user in a virtual host; for a further one, 506."""
    interrupted_messages: Count = 1000
    """Messages of one user in a virtual host that wait for message.resume of AMQP 0-10; a further one is not kept."""
    interrupted_memory: Size = 67_108_864
    """Bytes of these."""
    detached_sessions: Count = 1000
    """Sessions of AMQP 0-10 of one user in a virtual host that wait for their client; a further one ends at once."""
    close_timeout: Seconds = 5.0
    """From SIGTERM to the end, for clients to answer connection.close."""


class BrokerConfig(Strict, frozen=True):
    """The integrated broker: of `amqproxy broker`, and of `upstream = "broker"`."""

    listen: tuple[ListenerConfig, ...] = ()
    """Where clients of the broker connect; with `amqproxy broker`, 127.0.0.1:5672 unless there is one here."""
    data: str | None = None
    """A directory for what is durable, which is found again there; without one, all is in memory."""
    definitions: str | None = None
    """A definitions.json to begin with, as RabbitMQ exports it."""
    certificate_login: Literal["distinguished_name", "common_name"] = "distinguished_name"
    """The user that a client's certificate names, with EXTERNAL: RabbitMQ's ssl_cert_login_from."""
    auth_mechanisms: Annotated[tuple[Literal["PLAIN", "AMQPLAIN", "EXTERNAL"], ...], msgspec.Meta(min_length=1)] = (
        "PLAIN",
        "AMQPLAIN",
    )
    """What clients may log in with. EXTERNAL, where it is listed, is offered to those that show a certificate."""
    plugins: tuple[Literal["rabbitmq_consistent_hash_exchange", "rabbitmq_delayed_message_exchange"], ...] = (
        "rabbitmq_consistent_hash_exchange",
        "rabbitmq_delayed_message_exchange",
    )
    """The plugins of RabbitMQ whose exchange types clients may declare: x-consistent-hash and x-delayed-message. With
    none, both are refused as by a RabbitMQ where no plugin is enabled."""
    log_exchange: bool = False
    """Publish the log to amq.rabbitmq.log too, each line under its level: RabbitMQ's log.exchange."""
    limits: BrokerLimits = BrokerLimits()


class Config(Strict, frozen=True):
    """All there is to configure."""

    listen: Annotated[tuple[ListenerConfig, ...], msgspec.Meta(extra_json_schema={"minItems": 1})] = (ListenerConfig(),)
    """Where the proxy's clients connect."""
    upstream: UpstreamConfig | Literal["broker"] = UpstreamConfig()
    """Where connections go; "broker" is the integrated one, in this process."""
    broker: BrokerConfig = BrokerConfig()
    upstreams: dict[str, NamedUpstream] = {}
    """Further brokers, by the names that rules have for them."""
    metrics: MetricsConfig | None = None
    opentelemetry: OpenTelemetryConfig | None = None
    record: RecordConfig | None = None
    control: ControlConfig | None = None
    dashboard: DashboardConfig | None = None
    log: LogConfig = LogConfig()
    limits: Limits = Limits()
    threads: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None
    """Threads that relay what no rule and no tap looks at, without Python: pumps. With 0, the event loop relays all.
    Connections over TLS stay there. Only where amqproxy is compiled, on Linux. By default, one fewer than the cores
    that it may use, as a limit of CPU time allows, at most 4."""
    rules: tuple[AnyRule, ...] = ()
    """Asked in this order."""
    seed: int | None = None
    """Of the chance that rules draw from: with it, each run draws the same."""

    def __post_init__(self) -> None:
        if isinstance(self.upstream, UpstreamConfig) and self.upstream.address in {
            each.address for each in self.listen
        }:
            raise ValueError(
                f"upstream is {self.upstream.address}, which is where we listen: name the broker's address"
            )
        check(self.rules)
        for place, rule in enumerate(self.rules):
            if isinstance(rule, Mirror) and rule.upstream is not None and rule.upstream not in self.upstreams:
                raise ValueError(
                    f".rules[{place}].upstream: there is no `{rule.upstream}`: it needs an [upstreams.{rule.upstream}]"
                )


class ConfigError(Exception):
    """A config file that cannot be read or is not right; the text names the place and the remedy."""


def schema() -> dict[str, Any]:
    """The JSON Schema of a config file, with this module's docstrings of the keys."""
    found: dict[str, Any] = may_be_text(msgspec.json.schema(Config))
    definitions = found["$defs"]
    for name, described in _descriptions().items():
        properties = definitions.get(name, definitions.get(f"{__name__}.{name}"))["properties"]
        for key, text in described.items():
            if "$ref" in properties[key]:  # beside which some readers look at nothing else
                properties[key] = {"allOf": [{"$ref": properties[key].pop("$ref")}], **properties[key]}
            properties[key]["description"] = text
    definitions["ClientTLS"]["dependentRequired"] = {"key": ["certificate"]}
    return found


def _descriptions() -> dict[str, dict[str, str]]:
    """Of each struct, what is written below its keys; else, the docstring of their type."""
    module = sys.modules[__name__]
    found = {}
    for each in ast.parse(inspect.getsource(module)).body:
        if isinstance(each, ast.ClassDef) and issubclass(getattr(module, each.name), Strict) and each.name != "Strict":
            texts = {}
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
    """The docstring of the struct that is an annotation's first word."""
    kind = getattr(sys.modules[__name__], ast.unparse(statement.annotation).split(" ")[0])
    return inspect.getdoc(kind) or ""
