"""The config file, TOML or YAML, and the environment. Unknown keys and wrong types are refused, with the key's path."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from amqproxy.configuration.config import Config, ConfigError, DashboardConfig, ListenerConfig
from amqproxy.configuration.config_document import MAX_DEPTH, DocumentError, loaded_toml, loaded_yaml, too_deep
from amqproxy.configuration.environment import FILE, WrongVariable, variable_at, with_environment
from amqproxy.configuration.hints import hint
from amqproxy.configuration.login_config import LoginConfig, UpstreamLogin
from amqproxy.configuration.quantities import numbered
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.source_lines import Path as KeyPath
from amqproxy.configuration.source_lines import line_at, line_of, lines_of, path_of, with_comments
from amqproxy.configuration.tls_config import TLS, CertificateFiles, ServerTLS
from amqproxy.configuration.upstream_config import HealthCheck, NamedUpstream, UpstreamConfig
from amqproxy.configuration.values import Strict
from amqproxy.rules.actions import AnyRule

Placeable = TypeVar("Placeable", bound=Strict)

_NO_FILE = Path("environment")
"""Name, in errors, of what is not in a file."""

_NO_VARIABLES: Mapping[KeyPath, str] = {}


def chosen_file(path: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the config file: the given one, or that in AMQPROXY_CONFIG."""
    named = environment.get(FILE)
    return path or (Path(named) if named else None)


def load(path: Path | None, environment: Mapping[str, str] = os.environ) -> Config:
    """Return the config in a .toml, .yaml or .yml file, if there is one, with the keys that `environment` sets.

    Raise `ConfigError` if it is invalid.
    """
    text, data = _read(path)
    path = path or _NO_FILE
    data, variables = _with_environment(data, environment)
    return _resolved(_placed(_converted(data, text, path, variables), path.parent), text, path, variables=variables)


def _read(path: Path | None) -> tuple[str, Any]:
    """Return the text and the data of a file."""
    if path is None:
        return "", {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return text, data_of(text, path)


def _with_environment(data: Any, environment: Mapping[str, str]) -> tuple[Any, dict[KeyPath, str]]:
    try:
        return with_environment(Config, data, environment)
    except WrongVariable as error:
        raise ConfigError(str(error)) from None


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
        return _rules_of(data_of(text, path), text, path, upstreams, directory)
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
                raise ConfigError(placed_fault(fault, text, path, data))
        data = {**data, "upstreams": msgspec.to_builtins(dict(upstreams))}
    return _resolved(_converted(data, text, path), text, path, directory).rules


def _resolved(
    config: Config,
    text: str,
    path: Path,
    directory: Path | None = None,
    variables: Mapping[KeyPath, str] = _NO_VARIABLES,
) -> Config:
    """Return the config with the values that its rules read from files in `directory`, variables and functions."""
    data = {"rules": [{"name": rule.name} for rule in config.rules]}
    resources = ConfigResources(path.parent if directory is None else directory)
    rules = []
    for place, rule in enumerate(config.rules):
        try:
            rules.append(rule.resolved(resources))
        except ValueError as error:
            raise ConfigError(placed_fault(f"rules[{place}]: {error}", text, path, data, variables)) from None
    try:
        return msgspec.structs.replace(config, rules=tuple(rules))
    except ValueError as error:
        raise ConfigError(placed_fault(str(error).lstrip("."), text, path, data, variables)) from None


def _placed(config: Config, directory: Path) -> Config:
    """Return the config with its file names resolved relative to the config file."""
    upstream = config.upstream
    if isinstance(upstream, UpstreamConfig):
        upstream = msgspec.structs.replace(
            upstream, tls=_placed_tls(upstream.tls, directory), login=_placed_login(upstream.login, directory)
        )
    broker = msgspec.structs.replace(
        config.broker,
        listen=_placed_listeners(config.broker.listen, directory),
        data=config.broker.data and str(directory / config.broker.data),
        definitions=config.broker.definitions and str(directory / config.broker.definitions),
        management=config.broker.management and _placed_keys(config.broker.management, directory, "certificate", "key"),
    )
    upstreams = {
        name: msgspec.structs.replace(
            each,
            tls=_placed_tls(each.tls, directory),
            login=_placed_login(each.login, directory),
            password_file=each.password_file and str(directory / each.password_file),
            members=tuple(
                msgspec.structs.replace(member, tls=_placed_tls(member.tls, directory)) for member in each.members
            ),
            check=_placed_check(each.check, directory),
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
        logins={name: _placed_logins(each, directory) for name, each in config.logins.items()},
        control=control,
        record=record,
        dashboard=_placed_dashboard(config.dashboard, directory),
    )


def _placed_login(login: UpstreamLogin | None, directory: Path) -> UpstreamLogin | None:
    if login is None:
        return None
    return _placed_keys(
        login,
        directory,
        "password_file",
        "token_file",
        grant=login.grant and _placed_keys(login.grant, directory, "client_secret_file", "ca"),
    )


def _placed_logins(logins: LoginConfig, directory: Path) -> LoginConfig:
    tokens = logins.tokens
    if tokens is not None:
        tokens = _placed_keys(tokens, directory, *(() if "://" in tokens.keys else ("keys",)), "ca")
    callback = logins.callback and _placed_keys(logins.callback, directory, "ca")
    return _placed_keys(logins, directory, "users_file", tokens=tokens, callback=callback)


def _placed_keys(part: Placeable, directory: Path, *names: str, **others: Any) -> Placeable:
    """Return a part of the config with its file names of these keys resolved, and `others` replaced."""
    files = {name: str(directory / file) for name in names if (file := getattr(part, name))}
    return msgspec.structs.replace(part, **files, **others)


def _placed_check(check: HealthCheck | None, directory: Path) -> HealthCheck | None:
    if check is None or not check.password_file:
        return check
    return msgspec.structs.replace(check, password_file=str(directory / check.password_file))


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
    files = {name: getattr(tls, name, None) for name in ("certificate", "key", "ca", "client_ca", "client_crl")}
    placed: dict[str, Any] = {name: str(directory / file) for name, file in files.items() if file}
    if isinstance(tls, ServerTLS):
        placed["certificates"] = tuple(
            CertificateFiles(certificate=str(directory / each.certificate), key=str(directory / each.key))
            for each in tls.certificates
        )
    return msgspec.structs.replace(tls, **placed)


def parse(text: str, path: Path) -> Config:
    """Return the config in `text`, in the format of the suffix of `path`."""
    return _converted(data_of(text, path), text, path)


def data_of(text: str, path: Path) -> Any:
    """Return the data in `text`, in the format of the suffix of `path`; raise `ConfigError` if it is invalid."""
    try:
        if path.suffix == ".toml":
            return loaded_toml(text)
        if path.suffix in (".yaml", ".yml"):
            data = loaded_yaml(text)
            return {} if data is None else data
    except DocumentError as error:
        raise ConfigError(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from None
    raise ConfigError(f"{path}: the name must end in .toml, .yaml or .yml")


def _converted(data: Any, text: str, path: Path, variables: Mapping[KeyPath, str] = _NO_VARIABLES) -> Config:
    try:
        _check_values(data, "")
        data = numbered(Config, data)
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        fault = _named(explained(error, Config, data), data)
        raise ConfigError(placed_fault(fault, text, path, data, variables)) from None
    except ValueError as error:
        raise ConfigError(placed_fault(str(error).lstrip("."), text, path, data, variables)) from None
    if not config.listen:
        raise ConfigError(f"{path}: listen: at least one [[listen]] is needed")
    return config


def _named(fault: str, data: Any) -> str:
    """Add the name of an upstream or a login to its error, since msgspec reports `upstreams[...]` for all."""
    section, found, _ = fault.partition("[...]")
    if found and section in ("upstreams", "logins"):
        for name, each in data[section].items():
            try:
                msgspec.convert({section: {name: each}}, Config)
            except msgspec.ValidationError:
                return fault.replace("[...]", f".{name}", 1)
    return fault


_MAX_FAULT = 2000
"""Maximum length of an error, in characters."""

_RULE = re.compile(r"rules\[(\d+)\][^:\s]*")
_PLACE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+|\[\d+\])*(?=: )")


def placed_fault(fault: str, text: str, path: Path, data: Any, variables: Mapping[KeyPath, str] = _NO_VARIABLES) -> str:
    """Add the variable or the file to an error, and for a rule its line and name."""
    if len(fault) > _MAX_FAULT:  # it repeats content of the file
        fault = f"{fault[:_MAX_FAULT]}…"
    found = _RULE.match(fault)
    place = found or _PLACE.match(fault)
    steps = () if place is None else path_of(place[0])
    variable = variable_at(steps, variables)
    if variable:
        return f"{variable}: {fault}"
    line = line_of(text, steps, is_toml=path.suffix == ".toml") if steps else None
    named = ""
    if found is not None:
        try:
            name = data["rules"][int(found[1])]["name"]
        except (LookupError, TypeError):
            name = ""
        named = f"rule '{name}', " if name and isinstance(name, str) else ""
    return f"{path}:{line}: {named}{fault}" if line else f"{path}: {named}{fault}"


def located(fault: str, path: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """Add the variable, or the file and line, to an error that begins with a key."""
    try:
        text, data = _read(path)
        _, variables = _with_environment(data, environment)
    except ConfigError:
        return f"{path}: {fault}"
    shown = placed_fault(fault, text, path or _NO_FILE, {}, variables)
    return fault if path is None and not variables else shown


def sources(path: Path | None, environment: Mapping[str, str] = os.environ) -> dict[KeyPath, str]:
    """Return, for each value of the config that is not a default, its variable, or its file and line."""
    text, data = _read(path)
    data, variables = _with_environment(data, environment)
    lines = lines_of(text, is_toml=path is not None and path.suffix == ".toml")
    found = {}
    for place in _leaves(data, ()):
        found[place] = variable_at(place, variables) or f"{path}:{line_at(place, lines)}"
    return found


def _leaves(data: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of all values that contain no others."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    is_leaf = True
    for key, value in items:
        is_leaf = False
        yield from _leaves(value, (*path, key))
    if is_leaf and path:
        yield path


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
    if "matching regex" in what and path == "upstream":
        what = (
            'neither "broker" nor a name of [upstreams]; an address is written as upstream = { address = "HOST:PORT" }'
        )
    elif "matching regex" in what:
        what = "not of the form HOST:PORT, e.g. 127.0.0.1:5672 or [::1]:5672"
    if what.startswith("."):  # an error of one key, raised by a check of several
        return (path + what).removeprefix(".")
    return f"{path}: {what}" if path else what


def dump(config: Config, sources: Mapping[KeyPath, str] = _NO_VARIABLES) -> str:
    """Return the whole config, including defaults, as YAML, with the sources of values as comments."""
    return with_comments(yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False), sources)
