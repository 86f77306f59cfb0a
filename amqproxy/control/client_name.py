"""Client-provided names and properties as text to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.conversion.client_name import given_name

MOST_TEXT = 1024
"""Characters that are shown of a client property."""


def shown_text(value: Any) -> str:
    """Return a client property as text that UTF-8 can encode, invalid bytes escaped, cut to `MOST_TEXT` characters."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text[:MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def client_name(properties: Mapping[str, Any]) -> str:
    """Return the name that a client gave its connection or itself; "" if it gave none."""
    return shown_text(given_name(properties))
