"""What clients say of themselves, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.conversion.client_name import given_name

MOST_TEXT = 1024
"""Characters that are shown of a text of a client's about itself."""


def shown_text(value: Any) -> str:
    """A client property as text that UTF-8 can encode: bytes that it cannot are escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text[:MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def client_name(properties: Mapping[str, Any]) -> str:
    """What a client calls its connection, or itself; "" if it has given no name."""
    return shown_text(given_name(properties))
