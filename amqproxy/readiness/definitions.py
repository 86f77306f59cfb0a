"""Uses in an export of definitions: queues, policies and operator policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.rabbitmq.declared_queue import QUEUE_USES, DeclaredQueue
from amqproxy.rabbitmq.incompatibility import MIRRORED_QUEUES, QUEUE_MASTER_LOCATOR, QUEUE_MODE
from amqproxy.readiness.uses import Uses

_OF_POLICIES = {"queue-master-locator": QUEUE_MASTER_LOCATOR.kind, "queue-mode": QUEUE_MODE.kind}


def add_definitions(uses: Uses, definitions: object) -> None:
    """Add the uses in a decoded export; raise `ValueError` if it is not one."""
    if not isinstance(definitions, Mapping):
        raise ValueError("an export of definitions is a JSON object")
    for queue in _objects(definitions, "queues"):
        declared = DeclaredQueue(
            is_durable=queue.get("durable") is not False,
            is_exclusive=queue.get("exclusive") is True,
            arguments=_mapping(queue, "arguments"),
        )
        for kind, use in QUEUE_USES.items():
            if (text := use(declared)) is not None:
                uses.add(kind, "definitions", f"queue {queue.get('name')}{_place(queue)} is defined {text}")
    for policy in _objects(definitions, "policies"):
        _add_policy(uses, f"policy {policy.get('name')}{_place(policy)}", _mapping(policy, "definition"))
    for each in _objects(definitions, "parameters"):
        if each.get("component") == "operator_policy":
            named = f"operator policy {each.get('name')}{_place(each)}"
            _add_policy(uses, named, _mapping(_mapping(each, "value"), "definition"))


def _add_policy(uses: Uses, named: str, definition: Mapping[str, Any]) -> None:
    mirroring = [key for key in definition if key.startswith("ha-")]
    if mirroring:
        uses.add(MIRRORED_QUEUES.kind, "definitions", f"{named} has {', '.join(mirroring)}")
    for key, kind in _OF_POLICIES.items():
        if key in definition:
            uses.add(kind, "definitions", f"{named} has {key} {definition[key]}, which its import refuses or ignores")


def _objects(definitions: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    found = definitions.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ValueError(f"{name} of an export of definitions is a list of objects")
    yield from found


def _mapping(each: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = each.get(name, {})
    return found if isinstance(found, Mapping) else {}  # an empty table of old exports is a list


def _place(each: Mapping[str, Any]) -> str:
    """Return " in vhost NAME" for an entry that names its virtual host, else ""."""
    vhost = each.get("vhost")
    return "" if vhost is None else f" in vhost {vhost}"
