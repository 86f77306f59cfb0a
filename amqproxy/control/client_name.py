"""What clients say of themselves, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_TEXT = 1024
"""Characters that are shown of a text of a client's about itself."""

_NAMES = ("connection_name", "clientName", "qpid.client_process")
"""Client properties with a name: of 0-9-1, of Qpid JMS, and of the other clients of Qpid."""


def shown_text(value: Any) -> str:
    """A client property as text that UTF-8 can encode: bytes that it cannot are escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text[:MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def client_name(properties: Mapping[str, Any]) -> str:
    """What a client calls its connection, or itself; "" if it has given no name."""
    return next((shown_text(properties[each]) for each in _NAMES if properties.get(each)), "")
