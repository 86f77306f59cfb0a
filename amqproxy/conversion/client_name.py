"""The connection name that clients of either protocol set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QPID_NAMES = ("clientName", "qpid.client_process")
"""Client properties in which Qpid's clients set their name, the more specific one first."""

NAMES = ("connection_name", *QPID_NAMES)

ALIASES = ("client.name", "client.connection_name", "connection_name")
"""Attributes of rules and filters for the result of `given_name`."""


def given_name(properties: Mapping[str, Any]) -> str:
    """Return the connection name, or the client's name, from its properties as text; "" if there is none."""
    for each in NAMES:
        name = properties.get(each)
        if isinstance(name, bytes):
            name = name.decode("utf-8", "backslashreplace")
        if name and isinstance(name, str):
            return name
    return ""
