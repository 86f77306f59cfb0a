"""The config file, TOML or YAML. Unknown keys and wrong types are refused, with the path to the key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from amqproxy.configuration.config import (
    TLS,
    Config,
    ConfigError,
    DashboardConfig,
    ListenerConfig,
    NamedUpstream,
    UpstreamConfig,
)
from amqproxy.configuration.config_document import MAX_DEPTH, DocumentError, loaded_toml, loaded_yaml, too_deep
from amqproxy.configuration.hints import hint
from amqproxy.configuration.quantities import numbered
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.source_lines import line_of, path_of
from amqproxy.rules.actions import AnyRule


def load(path: Path) -> Config:
    """Return the config in a .toml, .yaml or .yml file; raise `ConfigError` if it is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return read(text, path)


def read(text: str, path: Path) -> Config:
    """Return the config that `load` would return for `path` if this were its text."""
    return _resolved(_placed(parse(text, path), path.parent), text, path)


def from_data(data: Any, path: Path) -> Config:
    """Return the config that `load` would return for `path` if this were its data. Errors name no line."""
    return _resolved(_placed(_converted(data, "", path), path.parent), "", path)


def rules_of_text(
    text: str, path: Path, upstreams: Mapping[str, NamedUpstream], *, directory: Path, shown: Path
) -> tuple[AnyRule, ...]:
    """Return the rules in `text`, which contains nothing else, in the format of the suffix of `path`.

    They may name the `upstreams`, and files in `directory`. Raise `ConfigError`, with `shown` as the file's name.
    """
    try:
        return _rules_of(_loaded(text, path), text, path, upstreams, directory)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(path), str(shown), 1)) from None


def rules_of_data(
    data: Any, path: Path, upstreams: Mapping[str, NamedUpstream], *, directory: Path
) -> tuple[AnyRule, ...]:
    """Like `rules_of_text`, for data. Errors name no line."""
    return _rules_of(data, "", path, upstreams, directory)


def _rules_of(
    data: Any, text: str, path: Path, upstreams: Mapping[str, NamedUpstream], directory: Path
) -> tuple[AnyRule, ...]:
    if isinstance(data, list):
        data = {"rules": data}
    if isinstance(data, dict):
        for key in data:
            if key != "rules":
                fault = f"{key}: only rules can be set while the proxy runs"
                raise ConfigError(_placed_fault(fault, text, path, data))
        data = {**data, "upstreams": msgspec.to_builtins(dict(upstreams))}
    return _resolved(_converted(data, text, path), text, path, directory).rules


def _resolved(config: Config, text: str, path: Path, directory: Path | None = None) -> Config:
    """Return the config with the values that its rules read from files in `directory`, variables and functions."""
    data = {"rules": [{"name": rule.name} for rule in config.rules]}
    resources = ConfigResources(path.parent if directory is None else directory)
    rules = []
    for place, rule in enumerate(config.rules):
        try:
            rules.append(rule.resolved(resources))
        except ValueError as error:
            raise ConfigError(_placed_fault(f"rules[{place}]: {error}", text, path, data)) from None
    try:
        return msgspec.structs.replace(config, rules=tuple(rules))
    except ValueError as error:
        raise ConfigError(_placed_fault(str(error).lstrip("."), text, path, data)) from None


def _placed(config: Config, directory: Path) -> Config:
    """Return the config with its file names resolved relative to the config file."""
    upstream = config.upstream
    if isinstance(upstream, UpstreamConfig):
        upstream = msgspec.structs.replace(upstream, tls=_placed_tls(upstream.tls, directory))
    broker = msgspec.structs.replace(
        config.broker,
        listen=_placed_listeners(config.broker.listen, directory),
        data=config.broker.data and str(directory / config.broker.data),
        definitions=config.broker.definitions and str(directory / config.broker.definitions),
    )
    upstreams = {
        name: msgspec.structs.replace(
            each,
            tls=_placed_tls(each.tls, directory),
            password_file=each.password_file and str(directory / each.password_file),
        )
        for name, each in config.upstreams.items()
    }
    listen = _placed_listeners(config.listen, directory)
    control = config.control and msgspec.structs.replace(config.control, path=str(directory / config.control.path))
    record = config.record and msgspec.structs.replace(
        config.record, directory=str(directory / config.record.directory)
    )
    return msgspec.structs.replace(
        config,
        listen=listen,
        upstream=upstream,
        broker=broker,
        upstreams=upstreams,
        control=control,
        record=record,
        dashboard=_placed_dashboard(config.dashboard, directory),
    )


def _placed_dashboard(dashboard: DashboardConfig | None, directory: Path) -> DashboardConfig | None:
    if dashboard is None:
        return None
    files = {name: getattr(dashboard, name) for name in ("token_file", "password_file", "certificate", "key")}
    if "://" not in dashboard.tables:  # a URL of a bucket otherwise
        files["tables"] = dashboard.tables
    return msgspec.structs.replace(dashboard, **{name: str(directory / file) for name, file in files.items() if file})


def _placed_listeners(listeners: tuple[ListenerConfig, ...], directory: Path) -> tuple[ListenerConfig, ...]:
    return tuple(msgspec.structs.replace(each, tls=_placed_tls(each.tls, directory)) for each in listeners)


def _placed_tls(tls: TLS | None, directory: Path) -> TLS | None:
    if tls is None:
        return None
    files = {name: getattr(tls, name, None) for name in ("certificate", "key", "ca", "client_ca")}
    return msgspec.structs.replace(tls, **{name: str(directory / file) for name, file in files.items() if file})


def parse(text: str, path: Path) -> Config:
    """Return the config in `text`, in the format of the suffix of `path`."""
    return _converted(_loaded(text, path), text, path)


def _loaded(text: str, path: Path) -> Any:
    try:
        if path.suffix == ".toml":
            return loaded_toml(text)
        if path.suffix in (".yaml", ".yml"):
            data = loaded_yaml(text)
            return {} if data is None else data
    except DocumentError as error:
        raise ConfigError(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from None
    raise ConfigError(f"{path}: the name must end in .toml, .yaml or .yml")


def _converted(data: Any, text: str, path: Path) -> Config:
    try:
        _check_values(data, "")
        data = numbered(Config, data)
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_placed_fault(_named(explained(error, Config, data), data), text, path, data)) from None
    except ValueError as error:
        raise ConfigError(_placed_fault(str(error).lstrip("."), text, path, data)) from None
    if not config.listen:
        raise ConfigError(f"{path}: listen: at least one [[listen]] is needed")
    return config


def _named(fault: str, data: Any) -> str:
    """Add the name of an upstream to its error, since msgspec reports `upstreams[...]` for all."""
    if fault.startswith("upstreams[...]"):
        for name, upstream in data["upstreams"].items():
            try:
                msgspec.convert({"upstreams": {name: upstream}}, Config)
            except msgspec.ValidationError:
                return fault.replace("[...]", f".{name}", 1)
    return fault


_MAX_FAULT = 2000
"""Maximum length of an error, in characters."""

_RULE = re.compile(r"rules\[(\d+)\][^:\s]*")
_PLACE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+|\[\d+\])*(?=: )")


def _placed_fault(fault: str, text: str, path: Path, data: Any) -> str:
    """Add the file to an error, and for a rule its line and name."""
    if len(fault) > _MAX_FAULT:  # it repeats content of the file
        fault = f"{fault[:_MAX_FAULT]}…"
    found = _RULE.match(fault)
    if found is None:
        place = _PLACE.match(fault)
        line = line_of(text, path_of(place[0]), is_toml=path.suffix == ".toml") if place is not None else None
        return f"{path}:{line}: {fault}" if line else f"{path}: {fault}"
    line = line_of(text, path_of(found[0]), is_toml=path.suffix == ".toml")
    try:
        name = data["rules"][int(found[1])]["name"]
    except (LookupError, TypeError):
        name = ""
    named = f"rule '{name}', " if name and isinstance(name, str) else ""
    return f"{path}:{line}: {named}{fault}" if line else f"{path}: {named}{fault}"


def located(fault: str, path: Path) -> str:
    """Add the file and line to an error that begins with a key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return f"{path}: {fault}"
    return _placed_fault(fault, text, path, {})


def _check_values(data: Any, place: str, depth: int = 0) -> None:
    """Raise `ValueError` for surrogates, which YAML escapes can spell, non-finite numbers, and excessive depth."""
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{place}: contains characters that UTF-8 cannot encode") from None
    elif isinstance(data, float) and not math.isfinite(data):
        raise ValueError(f"{place}: {data} is not a finite number")
    elif isinstance(data, (dict, list, tuple)):
        if depth == MAX_DEPTH:
            raise ValueError(f"{place}: {too_deep()}")
        for key, each in data.items() if isinstance(data, dict) else enumerate(data):
            _check_values(key, place)
            _check_values(each, f"{place}.{key}" if isinstance(data, dict) else f"{place}[{key}]", depth + 1)


def explained(error: msgspec.ValidationError, kind: type | None = None, data: Any = None) -> str:
    """Return msgspec's message with the path to the key in front, and a suggestion.

    `data` is the data of a `kind`, if it may be inspected for a suggestion.
    """
    what, _, path = str(error).partition(" - at `")
    if kind is not None:
        what += hint(kind, data, what, path.rstrip("`"))
    path = path.rstrip("`").removeprefix("$").lstrip(".")
    what = what.replace("Object contains unknown field", "unknown key").replace(
        "Object missing required field", "missing key"
    )
    if "matching regex" in what:
        what = "not of the form HOST:PORT, e.g. 127.0.0.1:5672 or [::1]:5672"
    if what.startswith("."):  # an error of one key, raised by a check of several
        return (path + what).removeprefix(".")
    return f"{path}: {what}" if path else what


def dump(config: Config) -> str:
    """Return the whole config, including defaults, as YAML."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False)
