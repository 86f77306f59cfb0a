"""Keys of rabbitmq.conf that a later RabbitMQ does not start with."""

from __future__ import annotations

from collections.abc import Mapping

REMOVED = (
    "amqp1_0.default_user",
    "amqp1_0.default_vhost",
    "amqp1_0.protocol_strict_mode",
    "cluster_formation.randomized_startup_delay_range.max",
    "cluster_formation.randomized_startup_delay_range.min",
    "management.enable_uaa",
    "management.uaa_client_id",
    "management.uaa_location",
    "mqtt.default_pass",
    "mqtt.default_user",
)
"""Keys of 3.10 that 4.0 and 4.3 do not know, by the schemas of the three."""

PERMIT = "deprecated_features.permit."
"""Prefix of the keys that permit or deny deprecated features."""


MAX_SHOWN = 80
"""Characters of a malformed line that its error shows."""


def settings_of(text: str) -> dict[str, str]:
    """Return the keys and values of a rabbitmq.conf; raise `ValueError` for a line that has none."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        key, separator, value = bare.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"line {number}: {bare[:MAX_SHOWN]!r} is not KEY = VALUE")
        found[key.strip()] = value.strip()
    return found


def permitted_features(settings: Mapping[str, str]) -> dict[str, bool]:
    """Return the deprecated features that a rabbitmq.conf permits or denies."""
    return {
        key.removeprefix(PERMIT): value.strip("'\"") == "true"
        for key, value in settings.items()
        if key.startswith(PERMIT)
    }
