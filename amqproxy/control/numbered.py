"""Look-up of sessions and connections by the number in a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from amqproxy.control.request_error import RequestError

Numbered = TypeVar("Numbered")


def numbered(registry: Mapping[int, Numbered], number: int) -> Numbered:
    """Return the session of this number. `RequestError` with `no-session` if there is none."""
    session = registry.get(number)
    if session is None:
        raise RequestError("no-session", f"there is no session {number}")
    return session


def numbered_or_all(registry: Mapping[int, Numbered], number: int | None) -> list[Numbered]:
    """Return the session of this number, or all current sessions if it is None."""
    return list(registry.values()) if number is None else [numbered(registry, number)]
