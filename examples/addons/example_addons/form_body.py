"""A body decoder: shows bodies of HTML forms, name=value&name=value, as JSON.

It runs in a child process with limited time and memory, wherever bodies of whole messages are shown. A text is shown as
it is, any other value as JSON; `None` leaves the body to other decoders.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs


def decode(body: bytes, content_type: str) -> Any:
    if not content_type.startswith("application/x-www-form-urlencoded"):
        return None
    return parse_qs(body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
