"""Deprecated features of the RabbitMQ version that the broker behaves as."""

from __future__ import annotations

from amqproxy.management.call import Call, Entry


async def deprecated_features(call: Call) -> list[Entry]:
    """Return the deprecated features that the broker knows, and whether clients may use them."""
    return [
        {
            "name": name,
            "state": "permitted" if each["permitted"] else "denied",
            "desc": "",
            "deprecation_phase": each["phase"],
            "doc_url": "",
            "provided_by": "rabbit",
        }
        for name, each in call.facts["features"].items()
    ]
