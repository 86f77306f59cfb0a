"""Differences between the definitions of two brokers, as RabbitMQ exports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KEYS: Mapping[str, tuple[str, ...]] = {
    "vhosts": ("name",),
    "exchanges": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
    "policies": ("vhost", "name"),
    "users": ("name",),
    "permissions": ("vhost", "user"),
}
"""The compared kinds of objects, with the keys that identify one."""

IGNORED = frozenset({"password_hash", "hashing_algorithm", "metadata", "description", "tags", "default_queue_type"})
"""Keys that may differ: salted hashes, and those that one of the versions lacks."""

BUILT_IN = "amq."
"""Prefix of the names of objects that a broker has of its own accord."""

DEFAULT_ARGUMENTS = frozenset({("x-queue-type", "classic")})
"""Arguments that RabbitMQ 4 exports for objects that were declared without."""

Objects = dict[str, Mapping[str, Any]]


def differences(source: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each object that only one has, or whose properties differ, of exports of whole brokers."""
    for kind, keys in KEYS.items():
        ours, theirs = _objects(source, kind, keys), _objects(target, kind, keys)
        singular = kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind.removesuffix("s")
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in theirs:
                yield f"only the source has the {singular} {name}"
            elif name not in ours:
                yield f"only the target has the {singular} {name}"
            else:
                for key in sorted({*ours[name], *theirs[name]} - IGNORED):
                    one, other = _value(ours[name], key), _value(theirs[name], key)
                    if one != other:
                        yield f"the {singular} {name} differs: {key} is {one!r} at the source, {other!r} at the target"


def _objects(definitions: Mapping[str, Any], kind: str, keys: tuple[str, ...]) -> Objects:
    found = definitions.get(kind, [])
    if not isinstance(found, list):
        return {}
    objects = (each for each in found if isinstance(each, Mapping))
    return {_name(each, keys): each for each in objects if not str(each.get("name", "")).startswith(BUILT_IN)}


def _value(each: Mapping[str, Any], key: str) -> Any:
    """Return a property's value; arguments that are a broker's default count as none."""
    found = each.get(key)
    if key == "arguments" and isinstance(found, Mapping):
        found = {name: value for name, value in found.items() if (name, value) not in DEFAULT_ARGUMENTS}
    return found or None  # an empty table of old exports is a list


def _name(each: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return a name for people; empty parts, such as those of a binding without arguments, are left out."""
    return " ".join(str(each[key]) for key in keys if each.get(key))
