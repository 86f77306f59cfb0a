"""The config file as types: TOML or YAML, decoded strictly, with flags that stand for the common keys.

Unknown keys and wrong types are refused with the path to the key. Every bound has its name here.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml

from amqproxy.rules.actions import AnyRule
from amqproxy.rules.flaw import check

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Address = Annotated[str, msgspec.Meta(pattern=r"^(\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}$")]
"""HOST:PORT or [IPV6]:PORT. Port 0 lets the system choose; an empty host is every interface."""


def split_address(address: str) -> tuple[str, int]:
    """The host and port of HOST:PORT or [IPV6]:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_port(address: str) -> None:
    if split_address(address)[1] > 65535:
        raise ValueError(f"address {address} has a port above 65535")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file; keys that it does not have are refused."""


class ServerTLS(Strict, frozen=True):
    """What a listener shows its clients, and asks of them. Files are PEM."""

    certificate: str
    key: str
    client_ca: str | None = None
    """With it, clients must show a certificate that this authority signed."""


class ClientTLS(Strict, frozen=True):
    """How the broker is checked, and what it is shown. Files are PEM."""

    ca: str | None = None
    """The authority that must have signed the broker's certificate; the system's where absent."""
    server_name: str | None = None
    """The name the certificate must bear; the upstream's host where absent."""
    certificate: str | None = None
    key: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("a key needs the certificate that it belongs to")


TLS = TypeVar("TLS", ServerTLS, ClientTLS)


class Listener(Strict, frozen=True):
    """Where clients connect."""

    address: Address = "127.0.0.1:5673"
    tls: ServerTLS | None = None

    def __post_init__(self) -> None:
        _check_port(self.address)


class Upstream(Strict, frozen=True):
    """The broker that connections are passed on to."""

    address: Address = "127.0.0.1:5672"
    tls: ClientTLS | None = None

    def __post_init__(self) -> None:
        _check_port(self.address)
        host, port = split_address(self.address)
        if not host or not port:
            raise ValueError(f"address {self.address} leaves open which broker is meant: name its host and its port")


class Metrics(Strict, frozen=True):
    """Where Prometheus finds /metrics."""

    address: Address

    def __post_init__(self) -> None:
        _check_port(self.address)


class Log(Strict, frozen=True):
    """How the log on standard error is written."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Limits(Strict, frozen=True):
    """Every bound there is; times in seconds, sizes in octets."""

    connections: Count = 10_000
    """Client connections at a time; more are closed at once."""
    connect_timeout: Seconds = 10.0
    """For the upstream to accept, TLS included."""
    handshake_timeout: Seconds = 15.0
    """From a client's connecting to connection.open-ok."""
    close_timeout: Seconds = 5.0
    """For a peer to answer connection.close, or to close its half after the other has."""
    drain_timeout: Seconds = 30.0
    """From SIGTERM to the end, whatever is still open."""
    initial_frame_max: Annotated[int, msgspec.Meta(ge=4096)] = 131_072
    """The largest frame before connection.tune-ok has set one; tokens can make start-ok large."""
    frame_max: Annotated[int, msgspec.Meta(ge=4096)] = 16_777_216
    """The largest frame taken, also where the peers have agreed on more, or on no limit."""
    print_backlog: Count = 10_000
    """Records waiting to be printed; more are dropped, and counted."""


class Config(Strict, frozen=True):
    """All there is to configure."""

    listen: tuple[Listener, ...] = (Listener(),)
    upstream: Upstream | Literal["broker"] = Upstream()
    """Where connections go; "broker" is the integrated one, in this process."""
    metrics: Metrics | None = None
    log: Log = Log()
    limits: Limits = Limits()
    rules: tuple[AnyRule, ...] = ()
    """Asked in this order."""

    def __post_init__(self) -> None:
        if isinstance(self.upstream, Upstream) and self.upstream.address in {each.address for each in self.listen}:
            raise ValueError(
                f"upstream is {self.upstream.address}, which is where we listen: name the broker's address"
            )
        check(self.rules)


class ConfigError(Exception):
    """A config file that cannot be read or is not right; the text names the place and the remedy."""


def load(path: Path) -> Config:
    """The config in a .toml, .yaml or .yml file; `ConfigError` when it is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return _placed(parse(text, path), path.parent)


def _placed(config: Config, directory: Path) -> Config:
    """The config with the files that it names found beside it, wherever we were started."""
    listen = tuple(msgspec.structs.replace(each, tls=_placed_tls(each.tls, directory)) for each in config.listen)
    upstream = config.upstream
    if isinstance(upstream, Upstream):
        upstream = msgspec.structs.replace(upstream, tls=_placed_tls(upstream.tls, directory))
    return msgspec.structs.replace(config, listen=listen, upstream=upstream)


def _placed_tls(tls: TLS | None, directory: Path) -> TLS | None:
    if tls is None:
        return None
    files = {name: getattr(tls, name, None) for name in ("certificate", "key", "ca", "client_ca")}
    return msgspec.structs.replace(tls, **{name: str(directory / file) for name, file in files.items() if file})


def parse(text: str, path: Path) -> Config:
    """The config in `text`, whose kind is told by the ending of `path`."""
    try:
        if path.suffix == ".toml":
            data = tomllib.loads(text)
        elif path.suffix in (".yaml", ".yml"):
            data = yaml.safe_load(text)
            data = {} if data is None else data
        else:
            raise ConfigError(f"{path}: the name must end in .toml, .yaml or .yml, to tell which it is")
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {explained(error)}") from None
    if not config.listen:
        raise ConfigError(f"{path}: listen: at least one [[listen]] is needed")
    return config


def explained(error: msgspec.ValidationError) -> str:
    """msgspec's message, with the path to the key in front, as one would write it."""
    what, _, path = str(error).partition(" - at `")
    path = path.rstrip("`").removeprefix("$").lstrip(".")
    what = what.replace("Object contains unknown field", "unknown key").replace(
        "Object missing required field", "missing key"
    )
    if "matching regex" in what:
        what = "not of the form HOST:PORT, e.g. 127.0.0.1:5672 or [::1]:5672"
    if what.startswith("."):  # what is wrong with one key of several, said by whoever looked at them all
        return (path + what).removeprefix(".")
    return f"{path}: {what}" if path else what


def dump(config: Config) -> str:
    """The whole config, defaults included, as YAML."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False)


def schema() -> dict[str, Any]:
    """The JSON Schema of a config file."""
    return msgspec.json.schema(Config)
