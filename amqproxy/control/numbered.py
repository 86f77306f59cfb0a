"""Sessions and connections of a registry, by the number that a request names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from amqproxy.control.request_error import RequestError

Numbered = TypeVar("Numbered")


def numbered(registry: Mapping[int, Numbered], number: int) -> Numbered:
    """The one of this number. `RequestError` with `no-session` where there is none."""
    session = registry.get(number)
    if session is None:
        raise RequestError("no-session", f"there is no session {number}")
    return session


def numbered_or_all(registry: Mapping[int, Numbered], number: int | None) -> list[Numbered]:
    """The one of this number, or all of now."""
    return list(registry.values()) if number is None else [numbered(registry, number)]
