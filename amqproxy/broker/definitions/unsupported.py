"""Parts of definitions.json that the broker keeps and exports again, but that have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.broker.access.limits import USER_LIMITS, VHOST_LIMITS

Entry = Mapping[str, Any]

SHOWN_PLACES = 3
"""Places that a warning names; a large installation has the same argument in thousands of queues."""

HEADINGS = frozenset(
    {
        "explanation",
        "original_cluster_name",
        "original_vhost_name",
        "metadata",
        "product_name",
        "product_version",
        "rabbit_version",
        "rabbitmq_definition_format",
        "rabbitmq_version",
    }
)
"""Top-level keys that only describe the file."""

QUEUE_ARGUMENTS = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-expires",
        "x-max-age",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-qpid-priorities",
        "x-queue-type",
        "x-single-active-consumer",
        "x-stream-max-segment-size-bytes",
    }
)
"""Arguments of queues that have an effect."""

EXCHANGE_ARGUMENTS = frozenset({"x-delayed-type"})
"""Arguments of exchanges, of those that begin with x-, that have an effect."""

POLICY_SETTINGS = frozenset({name.removeprefix("x-") for name in QUEUE_ARGUMENTS} - {"max-priority", "queue-type"})
POLICY_SETTINGS |= {"alternate-exchange"}
"""Settings of policies that have an effect."""

PARAMETERS = frozenset({"operator_policy", "shovel", "vhost-limits"})
"""Components whose parameters have an effect."""

GLOBAL_PARAMETERS = frozenset({"cluster_name", "cluster_tags", "internal_cluster_id"})
"""Global parameters that only describe the cluster."""


VHOST_METADATA = frozenset({"default_queue_type", "description", "protected_from_deletion", "tags"})
"""Metadata of virtual hosts that has an effect, or is a note for people."""


def has_effect(argument: str) -> bool:
    """Whether a queue with this argument differs from one without, or whether it is a note for people."""
    return argument in QUEUE_ARGUMENTS or not argument.startswith("x-")


def ineffective(section: str, entry: Entry) -> Iterator[str]:
    """Yield a description of each part of an entry that has no effect."""
    match section:
        case "queues":
            yield from _unknown("argument", entry.get("arguments"), QUEUE_ARGUMENTS, "x-")
        case "exchanges":
            yield from _unknown("argument", entry.get("arguments"), EXCHANGE_ARGUMENTS, "x-")
        case "policies":
            yield from _policy_settings(entry)
        case "parameters" if entry["component"] == "operator_policy":
            yield from _policy_settings(entry["value"])
        case "parameters" if entry["component"] == "vhost-limits":
            yield from _unknown("limit", entry["value"], VHOST_LIMITS)
        case "parameters" if entry["component"] not in PARAMETERS:
            yield f"parameter of '{entry['component']}'"
        case "global_parameters" if entry["name"] not in GLOBAL_PARAMETERS:
            yield f"global parameter '{entry['name']}'"
        case "users":
            yield from _unknown("limit", entry.get("limits"), USER_LIMITS)
        case "vhosts":
            yield from _unknown("limit", entry.get("limits"), VHOST_LIMITS)
            for name, value in (entry.get("metadata") or {}).items():
                if name not in VHOST_METADATA and value not in (False, None):
                    yield f"metadata {name} = {value!r}"


def _policy_settings(value: Entry) -> Iterator[str]:
    yield from _unknown("policy setting", value["definition"], POLICY_SETTINGS)


def _unknown(noun: str, found: object, known: frozenset[str] | tuple[str, ...], prefix: str = "") -> Iterator[str]:
    for name in dict(found or ()):  # type: ignore[call-overload]
        if name.startswith(prefix) and name not in known:
            yield f"{noun} '{name}'"


def warnings_of(places: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield a warning for each description, which begins with the first of its places."""
    for what, found in places.items():
        more = len(found) - SHOWN_PLACES
        listed = ", ".join(found[:SHOWN_PLACES]) + (f" and {more} more" if more > 0 else "")
        yield f"{listed}: no effect: {what}"
