"""Merges flags into the configuration: flags override the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from amqproxy.app import preflight
from amqproxy.configuration.config import (
    BrokerConfig,
    Config,
    ConfigError,
    DashboardConfig,
    ListenerConfig,
    ManagementConfig,
    MetricsConfig,
    RecordConfig,
)
from amqproxy.configuration.config_file import explained, located
from amqproxy.configuration.quantities import numbered
from amqproxy.configuration.upstream_config import UpstreamConfig

SECRETS = {"token_file", "token_env", "password_file", "password_env"}
"""Sources of the dashboard's only secret."""


@contextmanager
def errors_with_line(config: Path | None) -> Iterator[None]:
    """Add the config file and the key's line, or the variable that set it, to preflight errors."""
    try:
        yield
    except preflight.PreflightError as fault:
        raise ConfigError(located(str(fault), config)) from None


def merged(
    config: Config,
    listen: str | None,
    upstream: str | None,
    metrics: str | None,
    log_format: str | None,
    log_level: str | None,
    record: Path | None = None,
    dashboard: bool | str = False,
) -> Config:
    """Return the config with the flags applied; `ConfigError` names the wrong flag."""
    changes: dict[str, object] = {}
    if listen:
        changes["listen"] = (_from_flag("--listen", ListenerConfig, {"address": listen}),)
    if upstream == "broker":
        changes["upstream"] = upstream
    elif upstream:
        known = msgspec.to_builtins(config.upstream) if isinstance(config.upstream, UpstreamConfig) else {}
        changes["upstream"] = _from_flag("--upstream", UpstreamConfig, {**known, "address": upstream})
    if metrics:
        changes["metrics"] = _from_flag("--metrics", MetricsConfig, {"address": metrics})
    if record:
        changes["record"] = (
            msgspec.structs.replace(config.record, directory=str(record), at_start=True)
            if config.record
            else RecordConfig(directory=str(record))
        )
    if dashboard:
        given = {"listen": dashboard} if isinstance(dashboard, str) else {}
        changes["dashboard"] = merged_dashboard(config.dashboard, given, {"listen": "--dashboard"})
    if log_format or log_level:
        log = {"format": log_format or config.log.format, "level": log_level or config.log.level}
        changes["log"] = msgspec.convert(log, type(config.log))
    try:
        return msgspec.structs.replace(config, **changes)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def with_management(config: Config, management: bool | str) -> Config:
    """Return the config of a proxy whose integrated broker has a management API; raise `ConfigError` without one."""
    if config.upstream != "broker":
        raise ConfigError("--management: only the integrated broker has this API: add `--upstream broker`")
    broker = merged_broker(config.broker, None, None, None, {}, management=management)
    return msgspec.structs.replace(config, broker=broker)


def merged_broker(
    broker: BrokerConfig,
    listen: str | None,
    data: Path | None,
    definitions: Path | None,
    tls: dict[str, str],
    profile: str | None = None,
    management: bool | str = False,
) -> BrokerConfig:
    """Like `merged`, for the broker; `tls` is for the single listener of --listen."""
    changes: dict[str, object] = {}
    if tls and not {"certificate", "key"} <= tls.keys():
        raise ConfigError("TLS needs both --tls-cert and --tls-key")
    if listen or tls:
        address = listen or (broker.listen[0].address if broker.listen else "127.0.0.1:5672")
        changes["listen"] = (_from_flag("--listen", ListenerConfig, {"address": address, "tls": tls or None}),)
    if data:
        changes["data"] = str(data)
    if definitions:
        changes["definitions"] = str(definitions)
    if profile:
        changes["profile"] = profile
    if management:
        values = {} if broker.management is None else msgspec.to_builtins(broker.management)
        address = management if isinstance(management, str) else values.get("listen", ManagementConfig().listen)
        try:
            changes["management"] = msgspec.convert(values | {"listen": address}, ManagementConfig)
        except msgspec.ValidationError as error:
            raise ConfigError(f"--management {address}: {explained(error).removeprefix('listen: ')}") from None
    try:
        return msgspec.structs.replace(broker, **changes)
    except ValueError as error:
        raise ConfigError(f"--as {profile}: {error}") from None


def merged_dashboard(
    config: DashboardConfig | None, given: Mapping[str, object], flags: dict[str, str] | None = None
) -> DashboardConfig:
    """Return the dashboard's config with the given values; `flags` names flags that differ from their keys."""
    values = {} if config is None else msgspec.to_builtins(config)
    if SECRETS & given.keys():
        values = {name: value for name, value in values.items() if name not in SECRETS}
    try:
        return msgspec.convert(numbered(DashboardConfig, {**values, **given}), DashboardConfig)
    except msgspec.ValidationError as error:
        text = explained(error)
    except ValueError as error:
        text = str(error).lstrip(".")
    names = {name: "--" + name.replace("_", "-") for name in DashboardConfig.__struct_fields__} | (flags or {})
    key, _, rest = text.partition(": ")
    if key in names:
        text = f"{names[key]} {given[key]}: {rest}" if key in given else f"{names[key]}: {rest}"
    for name, flag in names.items():
        text = text.replace(f"`{name}`", flag)
    raise ConfigError(text) from None


def _from_flag(flag: str, kind: type[msgspec.Struct], values: dict[str, object]) -> msgspec.Struct:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{flag} {values['address']}: {explained(error).removeprefix('address: ')}") from None
