"""Definitions with every kind of object, argument and policy setting that a version of RabbitMQ takes."""

from __future__ import annotations

from typing import Any

from amqproxy.rabbitmq.profile import Profile

VHOST = "every"
USERS = ("every-user", "every-user-without-password")

SETTINGS: dict[str, Any] = {
    "alternate-exchange": "amq.fanout",
    "dead-letter-exchange": "amq.fanout",
    "dead-letter-routing-key": "k",
    "dead-letter-strategy": "at-most-once",
    "delivery-limit": 5,
    "expires": 60_000,
    "initial-cluster-size": 1,
    "max-age": "7D",
    "max-in-memory-bytes": 1000,
    "max-in-memory-length": 10,
    "max-length": 100,
    "max-length-bytes": 10_000,
    "message-ttl": 60_000,
    "overflow": "drop-head",
    "queue-leader-locator": "balanced",
    "queue-mode": "lazy",
    "queue-version": 2,
    "stream-max-segment-size-bytes": 1_000_000,
}
ONLY_BEFORE_4_3: dict[str, Any] = {"queue-master-locator": "min-masters"}
ONLY_3_10: dict[str, Any] = {"ha-mode": "all"}
FROM_4_0: dict[str, Any] = {"consumer-timeout": 100_000, "stream-filter-size-bytes": 32, "target-group-size": 3}
FROM_4_3: dict[str, Any] = {
    "consumer-disconnected-timeout": 60_000,
    "delayed-retry-max": 10_000,
    "delayed-retry-min": 1000,
    "delayed-retry-type": "all",
}
NEEDED = {"delayed-retry-type": "delayed-retry-min", "dead-letter-routing-key": "dead-letter-exchange"}
"""Settings without which another is refused."""

OPERATORS = (
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "message-ttl",
)
OPERATORS_FROM_4_0 = ("overflow", "queue-version", "target-group-size")
OPERATORS_FROM_4_3 = ("delayed-retry-max", "delayed-retry-min", "delayed-retry-type")

CLASSIC = {
    "x-expires": 600_000,
    "x-message-ttl": 60_000,
    "x-dead-letter-exchange": "amq.fanout",
    "x-dead-letter-routing-key": "k",
    "x-max-length": 10,
    "x-max-length-bytes": 1000,
    "x-max-priority": 5,
    "x-overflow": "reject-publish-dlx",
    "x-queue-version": 2,
    "x-queue-mode": "lazy",
    "x-single-active-consumer": True,
    "number": 1.5,
    "list": [1, "a"],
    "table": {"z": 1},
    "x-unknown": "kept",
}
QUORUM = {
    "x-dead-letter-exchange": "amq.fanout",
    "x-dead-letter-routing-key": "k",
    "x-dead-letter-strategy": "at-least-once",
    "x-expires": 600_000,
    "x-max-length": 10,
    "x-max-length-bytes": 1000,
    "x-max-in-memory-length": 5,
    "x-max-in-memory-bytes": 6,
    "x-overflow": "reject-publish",
    "x-single-active-consumer": True,
    "x-quorum-initial-group-size": 1,
    "x-delivery-limit": 9,
    "x-message-ttl": 5000,
    "x-queue-leader-locator": "client-local",
}
QUORUM_FROM_4_3 = {
    "x-consumer-disconnected-timeout": 60_000,
    "x-consumer-timeout": 70_000,
    "x-delayed-retry-type": "failed",
    "x-delayed-retry-min": 1000,
    "x-delayed-retry-max": 9000,
}
STREAM = {
    "x-max-length-bytes": 100_000,
    "x-max-age": "1D",
    "x-stream-max-segment-size-bytes": 100_000,
    "x-initial-cluster-size": 1,
    "x-queue-leader-locator": "balanced",
}
STREAM_FROM_4_3 = {"x-stream-filter-size-bytes": 32}


def every_definition(profile: Profile) -> dict[str, Any]:
    """All definitions, as that version of RabbitMQ exports them."""
    is_late, is_newest = profile.name != "3.10", profile.name == "4.3"
    settings = SETTINGS | (FROM_4_0 if is_late else ONLY_3_10) | (FROM_4_3 if is_newest else ONLY_BEFORE_4_3)
    operators = OPERATORS + OPERATORS_FROM_4_0 * is_late + OPERATORS_FROM_4_3 * is_newest
    apply_to = ("all", "queues", *(("classic_queues", "quorum_queues", "streams") if is_late else ()))
    metadata: dict[str, Any] = {"description": "every kind", "tags": ["a", "b"]}
    return {
        "vhosts": [{"name": VHOST, "metadata": metadata | ({"default_queue_type": "quorum"} if is_late else {})}],
        "users": [
            {
                "name": USERS[0],
                "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
                "hashing_algorithm": "rabbit_password_hashing_sha512",
                "tags": ["monitoring"],
                "limits": {"max-channels": 30, "max-connections": 4},
            },
            {
                "name": USERS[1],
                "password_hash": "",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": [],
                "limits": {},
            },
        ],
        "permissions": [{"user": USERS[0], "vhost": VHOST, "configure": "a", "write": "b", "read": ".*"}],
        "topic_permissions": [
            {"user": USERS[0], "vhost": VHOST, "exchange": "amq.topic", "write": "w", "read": "r"},
        ],
        "parameters": [
            {
                "vhost": VHOST,
                "component": "vhost-limits",
                "name": "limits",
                "value": {"max-queues": 50, "max-connections": 40},
            },
            *(_operator(name, "queues", _with_needed(name, settings)) for name in operators),
            *(_operator(each, each, {"max-length": 3}) for each in apply_to),
        ],
        "policies": [
            *(_policy(name, "all", _with_needed(name, settings)) for name in settings),
            *(_policy(each, each, {"max-age": "1h"} if each == "streams" else {"expires": 4}) for each in apply_to),
            _policy("exchanges", "exchanges", {"alternate-exchange": "amq.fanout"}),
        ],
        "queues": [
            _queue(
                "classic", "classic", CLASSIC | ({"x-queue-leader-locator": "balanced"} if is_late else {}), profile
            ),
            _queue("quorum", "quorum", QUORUM | (QUORUM_FROM_4_3 if is_newest else {}), profile),
            _queue("stream", "stream", STREAM | (STREAM_FROM_4_3 if is_newest else {}), profile),
            {**_queue("auto-delete", "classic", {}, profile), "auto_delete": True},
            {**_queue("transient", "classic", {}, profile), "durable": False},
        ],
        "exchanges": [
            *(
                _exchange(type_, type_, {"alternate-exchange": "amq.fanout"})
                for type_ in ("direct", "fanout", "topic", "headers", *profile.exchange_types)
            ),
            {**_exchange("transient", "topic", {}), "durable": False, "auto_delete": True},
        ],
        "bindings": [
            _binding("topic", "queue", "classic", "a.#", {"note": "kept"}),
            _binding("headers", "exchange", "fanout", "", {"x-match": "any", "n": 1, "f": 1.5, "l": [1]}),
            _binding("direct", "queue", "stream", "k", {}),
        ],
    }


def _with_needed(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {each: settings[each] for each in (name, NEEDED.get(name, name))}


def _operator(name: str, apply_to: str, definition: dict[str, Any]) -> dict[str, Any]:
    value = {"pattern": "^never", "apply-to": apply_to, "definition": definition, "priority": 2}
    return {"vhost": VHOST, "component": "operator_policy", "name": f"operator {name}", "value": value}


def _policy(name: str, apply_to: str, definition: dict[str, Any]) -> dict[str, Any]:
    value = {"pattern": "^never", "apply-to": apply_to, "definition": definition, "priority": 3}
    return {"vhost": VHOST, "name": f"policy {name}", **value}


def _queue(name: str, type_: str, arguments: dict[str, Any], profile: Profile) -> dict[str, Any]:
    shown = {"x-queue-type": type_} if profile.shows_queue_type or type_ != "classic" else {}
    arguments = arguments | shown
    return {"name": name, "vhost": VHOST, "type": type_, "durable": True, "auto_delete": False, "arguments": arguments}


def _exchange(name: str, type_: str, arguments: dict[str, Any]) -> dict[str, Any]:
    kind = {"name": name, "vhost": VHOST, "type": type_, "arguments": arguments}
    return {**kind, "durable": True, "auto_delete": False, "internal": False}


def _binding(source: str, kind: str, destination: str, key: str, arguments: dict[str, Any]) -> dict[str, Any]:
    ends = {"source": source, "vhost": VHOST, "destination": destination, "destination_type": kind}
    return {**ends, "routing_key": key, "arguments": arguments}


def sorted_definitions(definitions: dict[str, Any]) -> dict[str, list[Any]]:
    """The entries of `every_definition` in an export, in an order and in forms that no version decides.

    rabbitmqctl leaves out whether an exchange is internal, and limits are pairs before 4.3.
    """
    found: dict[str, list[Any]] = {}
    for section, entries in definitions.items():
        if isinstance(entries, list) and section != "global_parameters":
            ours = [
                each for each in entries if VHOST in (each.get("vhost"), each["name"] if section == "vhosts" else "")
            ]
            if section == "users":
                ours = [each for each in entries if each["name"] in USERS]
            found[section] = sorted((_usual_form(section, each) for each in ours), key=repr)
    return found


def _usual_form(section: str, entry: dict[str, Any]) -> dict[str, Any]:
    if section == "exchanges":
        entry = {"internal": False, **entry}
    if section == "vhosts":
        entry = {"name": entry["name"], "metadata": entry["metadata"], "limits": dict(entry["limits"])}
    return {name: _in_order(entry[name]) for name in sorted(entry)}


def _in_order(value: Any) -> Any:
    return {name: _in_order(value[name]) for name in sorted(value)} if isinstance(value, dict) else value
