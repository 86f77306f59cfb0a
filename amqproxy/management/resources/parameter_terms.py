"""Validation of parameters by component, with the texts of RabbitMQ and of its federation and shovel plugins.

A check returns the text about a value that it refuses, and None otherwise. RabbitMQ reports unknown keys first, and
then the keys of a component from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from amqproxy.management.failure import Failure, bad_request
from amqproxy.shovels.definition import NUMBERS, TEXTS

Check = Callable[[str, Any], str | None]

ACK_MODES = ("no-ack", "on-publish", "on-confirm")

SCHEMES = ("amqp", "amqps")

MOST_FAULTS = 20
"""Faults of a parameter that are named: a set of 65,000 members may have one in each."""


def erlang_term(value: Any) -> str:
    """Return a JSON value as Erlang prints what its decoder made of it."""
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case str():
            return f'<<"{value}">>'
        case list():
            return f"[{','.join(map(erlang_term, value))}]"
        case dict():
            return f"#{{{','.join(f'{erlang_term(key)} => {erlang_term(each)}' for key, each in value.items())}}}"
    return str(value)


def _kind(noun: str, *types: type) -> Check:
    """Return the check for values of these types, of which bool is never an int."""

    def check(name: str, value: Any) -> str | None:
        return None if type(value) in types else f"{name} should be {noun}, actually was {erlang_term(value)}"

    return check


_TEXT = _kind("binary", str)
_NUMBER = _kind("a number", int, float)
_BOOLEAN = _kind("boolean", bool)
_LIST = _kind("list", list, dict)


def _one_of(*words: str) -> Check:
    def check(name: str, value: Any) -> str | None:
        if not isinstance(value, str):
            return _TEXT(name, value)
        listed = ",".join(map(erlang_term, words))
        return None if value in words else f"{name} should be one of [{listed}], actually was {erlang_term(value)}"

    return check


def _uri(name: str, value: Any) -> str | None:
    """Check one URI, or each of a list, with RabbitMQ's texts for what it cannot parse."""
    if not isinstance(value, str):
        fault = _LIST(name, value)
        return fault or next((each for each in (_uri(name, part) for part in value) if each is not None), None)
    scheme, colon, _ = value.partition("://")
    if not colon:
        return f'"{value}" not a valid URI: {{{{unable_to_parse_uri,no_scheme}},"{value}"}}'
    if scheme not in SCHEMES:
        return f'"{value}" not a valid URI: {{{{unexpected_uri_scheme,"{scheme}"}},"{value}"}}'
    fault = None
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - it is checked when it is read
    except ValueError as error:
        port = value.rpartition(":")[2].partition("/")[0]
        fault = f"{{port_out_of_range,{port}}}" if "range" in str(error) else "{unable_to_parse_uri,malformed}"
    else:
        if "/" in parts.path[1:]:
            fault = f'{{invalid_vhost,"{parts.path[1:]}"}}'
    return None if fault is None else f'"{value}" not a valid URI: {{{fault},"{value}"}}'


def _delete_after(name: str, value: Any) -> str | None:
    if value in ("never", "queue-length") or (type(value) is int and value >= 0):
        return None
    wanted = 'a number greater than or equal to 0, "never" or "queue-length"'
    return f"{name} should be {wanted}, actually was {erlang_term(value)}"


def _anything(name: str, value: Any) -> None:
    """Accept any value: this broker keeps the parameter and does not use it."""


FEDERATED: Mapping[str, Check] = {
    "exchange": _TEXT,
    "queue": _TEXT,
    "consumer-tag": _TEXT,
    "prefetch-count": _NUMBER,
    "reconnect-delay": _NUMBER,
    "max-hops": _NUMBER,
    "expires": _NUMBER,
    "message-ttl": _NUMBER,
    "trust-user-id": _BOOLEAN,
    "ack-mode": _one_of(*ACK_MODES),
    "resource-cleanup-mode": _one_of("default", "never"),
}
"""Keys of a federation upstream, and of a member of a set, which overrides them."""

OF_VERSION: Mapping[bool, Mapping[str, Check]] = {
    True: {
        "queue-type": _one_of("classic", "quorum"),
        "bind-nowait": _BOOLEAN,
        "channel-use-mode": _one_of("multiple", "single"),
    },
    False: {"ha-policy": _TEXT, "bind-nowait": _BOOLEAN, "channel-use-mode": _one_of("multiple", "single")},
}
"""Further keys: those of RabbitMQ 4, and those of 3.10."""


def _properties(name: str, value: Any) -> str | None:
    """Check properties of messages by name; RabbitMQ takes an empty list for none."""
    keys: dict[str, Check] = {**dict.fromkeys(TEXTS, _TEXT), **dict.fromkeys(NUMBERS, _NUMBER)}
    faults = list(islice(_faults(name, value or {}, keys, ()), MOST_FAULTS))
    return "\n".join(faults) or None


SHOVEL: Mapping[str, Check] = {
    "internal": _anything,
    "internal_owner": _anything,
    "ack-mode": _one_of(*ACK_MODES),
}

PROTOCOLS: Mapping[bool, Sequence[str]] = {True: ("local", "amqp10", "amqp091"), False: ("amqp10", "amqp091")}
"""Protocols of shovels: those of RabbitMQ 4, and those of 3.10."""

SINCE_4 = frozenset({"src-predeclared", "dest-predeclared", "src-consumer-args"})
"""Keys of shovels that RabbitMQ 3.10 does not have."""

SHOVEL_SIDES: Mapping[str, Mapping[str, Check]] = {
    "src": {
        "src-uri": _uri,
        "src-exchange": _TEXT,
        "src-exchange-key": _TEXT,
        "src-queue": _TEXT,
        "src-queue-args": _anything,
        "src-consumer-args": _anything,
        "src-predeclared": _BOOLEAN,
        "prefetch-count": _NUMBER,
        "src-prefetch-count": _NUMBER,
        "delete-after": _delete_after,
        "src-delete-after": _delete_after,
    },
    "dest": {
        "dest-uri": _uri,
        "dest-exchange": _TEXT,
        "dest-exchange-key": _TEXT,
        "dest-queue": _TEXT,
        "dest-queue-args": _anything,
        "dest-predeclared": _BOOLEAN,
        "reconnect-delay": _NUMBER,
        "add-forward-headers": _BOOLEAN,
        "add-timestamp-header": _BOOLEAN,
        "dest-add-forward-headers": _BOOLEAN,
        "dest-add-timestamp-header": _BOOLEAN,
        "publish-properties": _properties,
        "dest-publish-properties": _properties,
    },
}
"""Keys of a shovel's two ends over AMQP 0-9-1, or within the broker."""

AMQP10_SIDES: Mapping[str, Mapping[str, Check]] = {
    "src": {
        "src-uri": _uri,
        "src-address": _TEXT,
        "src-prefetch-count": _NUMBER,
        "src-delete-after": _delete_after,
        "prefetch-count": _NUMBER,
        "delete-after": _delete_after,
    },
    "dest": {
        "dest-uri": _uri,
        "dest-address": _TEXT,
        "reconnect-delay": _NUMBER,
        "dest-add-forward-headers": _BOOLEAN,
        "dest-add-timestamp-header": _BOOLEAN,
        "dest-application-properties": _anything,
        "dest-message-annotations": _anything,
        "dest-properties": _anything,
    },
}


def check_parameter(component: str, name: str, value: Any, *, is_4: bool) -> None:
    """Raise the `Failure` of RabbitMQ for a parameter that is not valid, or of an unknown component."""
    found: Iterator[str]
    match component:
        case "federation-upstream":
            found = _faults(name, value, {"uri": _uri, **FEDERATED, **OF_VERSION[is_4]}, ["uri"])
        case "federation-upstream-set":
            if not isinstance(value, list):
                raise bad_request(f"Validation failed\n\n{name} should be list, actually was {erlang_term(value)}\n")
            keys = {"upstream": _TEXT, **FEDERATED, **OF_VERSION[is_4]}
            found = (fault for each in value for fault in _faults(name, each, keys, ["upstream"]))
        case "shovel":
            found = _shovel_faults(name, value, is_4=is_4)
        case _:
            found = iter([f"component {component} not found"])
    faults = list(islice(found, MOST_FAULTS))
    if faults:
        raise validation_failed(faults, is_4=is_4)


def validation_failed(faults: Sequence[str], *, is_4: bool) -> Failure:
    """Return RabbitMQ's error about values that are not valid; 3.10 writes it as HTML."""
    text = "".join(f"{each}\n" for each in faults)
    if not is_4:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return bad_request(f"Validation failed\n\n{text}")


def _faults(name: str, value: Any, keys: Mapping[str, Check], required: Sequence[str]) -> Iterator[str]:
    entries = value if isinstance(value, dict) else {}
    unknown = [
        f"{{{erlang_term(key)},{erlang_term(each)}}}" for key, each in sorted(entries.items()) if key not in keys
    ]
    if not isinstance(value, dict):
        unknown = [erlang_term(each) for each in value] if isinstance(value, list) else [erlang_term(value)]
    if unknown:
        yield f"Unrecognised terms [{','.join(unknown)}] in {name}"
    for key, check in reversed(list(keys.items())):
        if key in entries:
            fault = check(key, entries[key])
            if fault is not None:
                yield fault
        elif key in required:
            yield f'Key "{key}" not found in {name}'


def _shovel_faults(name: str, value: Any, *, is_4: bool) -> Iterator[str]:
    entries = value if isinstance(value, dict) else {}
    keys, required = dict(SHOVEL), ["src-uri", "dest-uri"]
    for side in ("src", "dest"):
        keys[f"{side}-protocol"] = _one_of(*PROTOCOLS[is_4])
        is_amqp10 = entries.get(f"{side}-protocol") == "amqp10"
        keys |= (AMQP10_SIDES if is_amqp10 else SHOVEL_SIDES)[side]
        if is_amqp10:
            required.append(f"{side}-address")
            continue
        ends = [end for end in (f"{side}-exchange", f"{side}-queue") if end in entries]
        if len(ends) > 1:
            yield f"Cannot specify '{side}-exchange' and '{side}-queue'"
        elif not ends and side == "src":
            yield f"Must specify '{side}-exchange' or '{side}-queue'"
    count = entries.get("src-delete-after", entries.get("delete-after"))
    if entries.get("ack-mode") == "no-ack" and type(count) is int:
        yield "Cannot specify 'no-ack' and numerical 'delete-after'"
    if not is_4:
        keys = {key: check for key, check in keys.items() if key not in SINCE_4}
    yield from _faults(name, value, keys, required)
