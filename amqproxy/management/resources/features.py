"""Deprecated features of the RabbitMQ version that the broker behaves as."""

from __future__ import annotations

from amqproxy.management.call import Call, Entry

TRANSIENT = "transient_nonexcl_queues"


async def deprecated_features(call: Call) -> list[Entry]:
    """Return the deprecated features that the broker knows, and whether clients may use them."""
    return [_row(call, name) for name in call.facts["features"]]


async def used_features(call: Call) -> list[Entry]:
    """Return the permitted deprecated features in use, as far as objects show it: transient queues."""
    feature = call.facts["features"].get(TRANSIENT)
    if feature is None or not feature["permitted"]:
        return []
    found = await call.broker.first("queues", lambda queue: not (queue["durable"] or queue["exclusive"]))
    return [] if found is None else [_row(call, TRANSIENT)]


def _row(call: Call, name: str) -> Entry:
    feature = call.facts["features"][name]
    return {
        "name": name,
        "state": "permitted" if feature["permitted"] else "denied",
        "desc": "",
        "deprecation_phase": feature["phase"],
        "doc_url": "",
        "provided_by": "rabbit",
    }
