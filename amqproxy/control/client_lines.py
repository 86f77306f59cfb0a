"""Requests and responses of the control socket as lines of bytes, for its clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from amqproxy.control.request_error import RequestError

TIMEOUT = 30.0
"""Response timeout in seconds."""

ResponseMapping = dict[str, Any]
"""A decoded response or event, as documented in docs/control.md."""


MAX_LINE = 8 * 1024 * 1024
"""Size limit of one request in bytes: it may hold a message's body."""


def request_line(request: str, keys: dict[str, Any]) -> bytes:
    """Encode a request with the keys whose value is not None. `RequestError` if it is too long, or not UTF-8."""
    message = {"request": request} | {name: value for name, value in keys.items() if value is not None}
    try:
        line = msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        raise RequestError("malformed", "a text of the request is not UTF-8") from None
    if len(line) > MAX_LINE:
        raise RequestError("too-long", f"a request has {MAX_LINE} bytes at most, and this one has {len(line)}")
    return line


def decoded(line: bytes) -> ResponseMapping | None:
    """Decode a response or an event; return None at the end of the connection."""
    return msgspec.json.decode(line, type=dict[str, Any]) if line else None


def checked(response: ResponseMapping | None, path: Path | str) -> ResponseMapping:
    """Return a successful response. `RequestError` for an error response, or for none."""
    if response is None:
        raise RequestError("unreachable", f"{path}: amqproxy is gone")
    if not response.get("ok"):
        raise RequestError(str(response.get("error")), str(response.get("text")))
    return response


def unreachable(path: Path | str, error: OSError) -> RequestError:
    """Return the error for a `path` where no proxy listens."""
    return RequestError("unreachable", f"no amqproxy answers at {path}: {error.strerror or error}")


def gone(path: Path | str, error: OSError | ValueError) -> RequestError:
    """Return the error for a lost connection to a proxy."""
    return RequestError("unreachable", f"{path}: {getattr(error, 'strerror', None) or error}")
