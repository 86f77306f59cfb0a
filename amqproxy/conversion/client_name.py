"""The name that clients of either protocol give their connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.amqp010.login import NAME_PROPERTIES

_NAMES = ("connection_name", *NAME_PROPERTIES)


ALIASES = ("client.name", "client.connection_name", "connection_name")
"""The names by which rules and filters know what `given_name` returns."""


def given_name(properties: Mapping[str, Any]) -> str:
    """The name that a client's properties give its connection, or itself, as text; "" if there is none."""
    for each in _NAMES:
        name = properties.get(each)
        if name:
            return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)
    return ""
