"""Checks of a config's files, names and addresses on this machine, before anything starts.

`config check` and a start make the same checks, and so come to the same result. A file that can be read only once, such
as a pipe for a key, is left to the start.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from amqproxy.app.dashboard_process import secrets_of
from amqproxy.app.reload import mirror_upstreams
from amqproxy.broker.broker import Broker as BrokerModel
from amqproxy.broker.definitions import definitions_json
from amqproxy.broker.server.token_logins import token_logins
from amqproxy.configuration.config import (
    INTEGRATED,
    BrokerConfig,
    Config,
    ConfigError,
    DashboardConfig,
    ListenerConfig,
    ManagementConfig,
)
from amqproxy.configuration.extras import missing_extra
from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.configuration.upstream_config import NamedUpstream, UpstreamConfig
from amqproxy.configuration.values import is_loopback, split_address
from amqproxy.control.unix_socket import PATH_SIZE
from amqproxy.proxy.logins.credential_sources import credential_sources
from amqproxy.proxy.logins.logins import login_checks
from amqproxy.rabbitmq.profile import PROFILES, Profile
from amqproxy.sockets.tls import client_context, server_context

MOST_VHOST = 255
"""Maximum length of a virtual host's name, in bytes."""


OPENTELEMETRY = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
"""Packages of the extra `amqproxy[otel]`."""

DASHBOARD = ("fastapi", "uvicorn", "websockets", "pydantic")
"""Packages of the extra `amqproxy[dashboard]`."""

MANAGEMENT = ("starlette", "uvicorn", "websockets")
"""Packages of the extra `amqproxy[dashboard]` that the management API uses."""

ANALYTICS = ("duckdb", "pyarrow")
"""Packages of the extra `amqproxy[analytics]`."""


class PreflightError(ConfigError):
    """Error in the value at `place`, the path of a key such as `listen[0].tls`."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place = place


def check(config: Config) -> None:
    """Check the whole config; raise `PreflightError` for an error that would end the proxy or the broker."""
    check_proxy(config)
    if config.upstream != INTEGRATED:  # otherwise `check_proxy` has checked the broker too
        check_broker(config.broker)


def find_warnings(config: Config) -> Iterator[str]:
    """Yield settings that work, but are probably unintended."""
    for number, each in enumerate(config.listen):
        if each.proxy_protocol is not None and not each.proxy_protocol.networks:
            yield (
                f"listen[{number}].proxy_protocol: any client can claim any address in a PROXY header; name the "
                "addresses of the balancers in `networks`"
            )
    for name, login in config.logins.items():
        url = urlsplit(login.callback.url) if login.callback is not None else urlsplit("")
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield f"logins.{name}.callback.url: passwords are posted to {url.hostname} unencrypted: use https"
    upstream = config.upstream
    if isinstance(upstream, UpstreamConfig) and upstream.tls is not None and upstream.tls.certificate:
        yield (
            "upstream.tls.certificate: to the broker, every client that logs in with EXTERNAL is the user that this "
            "certificate names; refuse EXTERNAL with a rule if that is not meant"
        )


def check_proxy(config: Config) -> None:
    """Check the prerequisites of `amqproxy run`; raise `PreflightError` for an error that would end it."""
    _check_listeners(config.listen, "listen")
    if isinstance(config.upstream, UpstreamConfig):
        _check_upstream(config.upstream, "upstream")
    elif config.upstream == INTEGRATED:
        check_broker(config.broker)
    for name, each in config.upstreams.items():
        _check_named_upstream(config, name, each)
    _check_logins(config)
    addresses = {f"listen[{number}]": each.address for number, each in enumerate(config.listen)}
    if config.upstream == INTEGRATED:
        addresses |= _broker_addresses(config.broker)
    _check_observers(config, addresses)


def _check_logins(config: Config) -> None:
    """Check the logins of clients, and those of the proxy."""
    own = [each.login for each in config.upstreams.values()]
    if isinstance(config.upstream, UpstreamConfig):
        own.append(config.upstream.login)
    files = [each.users_file for each in config.logins.values()]
    files += [each.password_file or each.token_file for each in own if each is not None]
    files += [each.grant.client_secret_file for each in own if each is not None and each.grant is not None]
    if not all(_is_plain(file) for file in files if file):
        return
    try:
        login_checks(config, lambda *_: None)
        credential_sources(config, lambda *_: None, {})
    except ConfigError as error:
        place, _, text = str(error).partition(": ")
        raise PreflightError(place, text) from None


def _check_observers(config: Config, addresses: dict[str, str]) -> None:
    """Check the observers of a proxy or a broker, which listens at `addresses`."""
    if config.metrics is not None:
        _check_host(config.metrics.address, "metrics.address")
        addresses["metrics"] = config.metrics.address
    _check_twins(addresses)
    if config.opentelemetry is not None:
        _check_opentelemetry()
    if config.dashboard is not None:
        _check_dashboard(config.dashboard)
        addresses["dashboard"] = config.dashboard.listen
        _check_twins(addresses, "listen")
    if config.control is not None:
        _check_socket_path(Path(config.control.path), "control.path")


def check_broker_alone(config: Config) -> None:
    """Check the prerequisites of `amqproxy broker`; raise `PreflightError` for an error that would end it."""
    check_broker(config.broker)
    _check_observers(config, _broker_addresses(config.broker))


def _broker_addresses(config: BrokerConfig) -> dict[str, str]:
    """Return the addresses of a broker and of its management API, by their places in the configuration."""
    addresses = {f"broker.listen[{number}]": each.address for number, each in enumerate(config.listen)}
    if config.management is not None:
        addresses["broker.management.listen"] = config.management.listen
    return addresses


def check_broker(config: BrokerConfig) -> None:
    """Check the integrated broker's own settings; raise `PreflightError` for an error that would end it."""
    _check_listeners(config.listen, "broker.listen")
    for number, each in enumerate(config.listen):
        if each.proxy_protocol is not None:
            text = 'only listeners of a proxy take a PROXY header: set `upstream = "broker"`, and put it on [[listen]]'
            raise PreflightError(f"broker.listen[{number}].proxy_protocol", text)
    _check_twins({f"broker.listen[{number}]": each.address for number, each in enumerate(config.listen)})
    if config.management is not None:
        _check_management(config.management)
    if config.tokens is not None:
        token_logins(config.tokens, PROFILES[config.profile])
    if config.data is not None:
        _check_directory(Path(config.data), "broker.data")
    if config.definitions is not None:
        profile = PROFILES[config.profile].switching(config.deprecated_features)
        _check_definitions(Path(config.definitions), "broker.definitions", profile)


def _check_management(config: ManagementConfig) -> None:
    fault = missing_extra("dashboard", MANAGEMENT)
    if fault is not None:
        raise PreflightError("broker.management", fault)
    _check_host(config.listen, "broker.management.listen")
    _check_web_certificate(config.certificate, config.key, "broker.management.certificate")


def _check_opentelemetry() -> None:
    fault = missing_extra("otel", OPENTELEMETRY)
    if fault is not None:
        raise PreflightError("opentelemetry", fault)


def _check_web_certificate(certificate: str | None, key: str | None, place: str) -> None:
    if certificate is not None and key is not None:
        tls = ServerTLS(certificate=certificate, key=key)
        if _can_be_read_twice(tls):
            with _errors_at(place):
                server_context(tls)


def _check_dashboard(config: DashboardConfig) -> None:
    fault = missing_extra("dashboard", DASHBOARD)
    if fault is not None:
        raise PreflightError("dashboard", fault)
    fault = missing_extra("analytics", ANALYTICS) if config.tables else None
    if fault is not None:
        raise PreflightError("dashboard.tables", fault)
    _check_host(config.listen, "dashboard.listen")
    _check_web_certificate(config.certificate, config.key, "dashboard.certificate")
    files = {"token_file": config.token_file, "password_file": config.password_file}
    for key, file in files.items():
        if file and _is_plain(file):
            try:
                secrets_of(config)
            except ConfigError as error:
                raise PreflightError(f"dashboard.{key}", str(error).removeprefix("dashboard: ")) from None


# --- addresses


def _check_listeners(listeners: tuple[ListenerConfig, ...], place: str) -> None:
    for number, each in enumerate(listeners):
        if each.passed_name is None:
            _check_host(each.address, f"{place}[{number}].address")
        if each.tls is not None and _can_be_read_twice(each.tls):
            with _errors_at(f"{place}[{number}].tls"):
                server_context(each.tls)


def _check_upstream(upstream: UpstreamConfig, place: str) -> None:
    _check_host(upstream.address, f"{place}.address")
    tls = upstream.tls
    if tls is None:
        return
    if _can_be_read_twice(tls):
        with _errors_at(f"{place}.tls"):
            client_context(tls)
    if tls.server_name is not None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=tls.server_name)
        except ValueError as error:
            raise PreflightError(
                f"{place}.tls.server_name", f"`{tls.server_name}` cannot be a host's name: {error}"
            ) from None


def _check_named_upstream(config: Config, name: str, upstream: NamedUpstream) -> None:
    place = f"upstreams.{name}"
    _check_upstream(upstream, place)
    for number, member in enumerate(upstream.members):
        wanted = UpstreamConfig(address=member.address, tls=member.tls)
        _check_upstream(wanted, f"{place}.members[{number}]")
    if len(upstream.vhost.encode()) > MOST_VHOST:
        raise PreflightError(f"{place}.vhost", f"a virtual host's name is limited to {MOST_VHOST} bytes")
    if "\0" in upstream.user:
        raise PreflightError(f"{place}.user", "a user's name must not contain NUL")
    if upstream.takes_copies and (not upstream.password_file or _is_plain(upstream.password_file)):
        try:
            # Other keys may name other upstreams, without which the config would be invalid.
            mirror_upstreams(Config(upstreams={name: upstream}, limits=config.limits))
        except ConfigError as error:
            key = "password_file" if upstream.password_file else "password_env"
            raise PreflightError(f"{place}.{key}", str(error).removeprefix(f"{place}: ")) from None


def _check_host(address: str, place: str) -> None:
    """Raise `PreflightError` if the host of an address is not a valid host name (IDNA)."""
    host = split_address(address)[0]
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise PreflightError(place, f"`{host}` cannot be a host's name: {error}") from None


def _check_twins(addresses: dict[str, str], key: str = "address") -> None:
    """Check that no two addresses are equal; `key` is the key of the last one."""
    taken: dict[str, str] = {}
    for place, address in addresses.items():
        if not address.endswith(":0") and address in taken:
            raise PreflightError(
                f"{place}.{key}", f"{address} is already the address of {taken[address]}: choose another"
            )
        taken[address] = place


# --- files


def _check_socket_path(path: Path, place: str) -> None:
    if len(os.fsencode(path)) > PATH_SIZE:
        raise PreflightError(
            place, f"{path}: the name of a Unix socket is limited to {PATH_SIZE} bytes: choose a shorter one"
        )
    with _errors_at(place, path):
        if not path.parent.is_dir():
            raise PreflightError(place, f"{path}: there is no directory {path.parent}: make it")
        if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
            raise PreflightError(
                place, f"{path}: a file of that name exists, which is not a socket: choose another name"
            )


def _check_directory(path: Path, place: str) -> None:
    """Check that a directory is writable, or can be created."""
    with _errors_at(place, path):
        nearest = path.absolute()
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            raise PreflightError(place, f"{path}: {nearest} is not a directory: choose another")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PreflightError(place, f"{path}: no permission to write in {nearest}: check its owner and permissions")


def _check_definitions(path: Path, place: str, profile: Profile) -> None:
    """Check that a broker can start with the definitions."""
    with _errors_at(place, path):
        if path.exists() and not path.is_file():
            return
        try:
            found = json.loads(path.read_bytes())
            if not isinstance(found, dict):
                raise PreflightError(place, f"{path}: not an object, as RabbitMQ exports it")
            definitions_json.load(BrokerModel(profile=profile), found, 0)
        except RecursionError as error:
            raise PreflightError(place, f"{path}: {error}") from None


@contextmanager
def _errors_at(place: str, path: Path | None = None) -> Iterator[None]:
    """Raise errors within the block as errors of the value at `place`, and of the file that it names."""
    if path is not None and "\0" in str(path):
        raise PreflightError(place, "a file name must not contain NUL")
    try:
        yield
    except PreflightError:
        raise
    except OSError as error:
        raise PreflightError(place, f"{path}: cannot be read: {error.strerror or error}") from None
    except ConfigError as error:
        raise PreflightError(place, str(error)) from None
    except ValueError as error:
        raise PreflightError(place, f"{path}: {error}") from None


def _can_be_read_twice(tls: ServerTLS | ClientTLS) -> bool:
    return all(map(_is_plain, tls.files))


def _is_plain(file: str) -> bool:
    """Whether it is a file that can be read repeatedly, or does not exist."""
    try:
        return not Path(file).exists() or Path(file).is_file()
    except (OSError, ValueError):
        return True
