"""Fields of a dissected frame, as the frame's panes show them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

MAX_TEXT = 4096
"""Maximum length of a value, in characters; the bytes hold the rest."""

MAX_ENTRIES = 1000
"""Maximum number of entries of a table or list; the bytes hold the rest."""

SAFE_INTEGER = 2**53
"""Largest integer that JavaScript represents exactly; larger numbers are sent as text."""

MAX_FILTER_TEXT = 256
"""Maximum length of a text that gets a filter expression, in characters."""

MAX_FILTER_INTEGER = 2**63 - 1


class Field(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a frame, in its bytes from `start` to `end`; `filter` is an expression that selects the same value."""

    name: str
    start: int
    end: int
    type: str = ""
    value: Any = None
    filter: str = ""
    children: tuple[Field, ...] = ()


def filter_for(path: str, value: Any) -> str:
    """Return the filter expression for a value; "" if it is too long or has no literal."""
    if isinstance(value, str) and len(value) <= MAX_FILTER_TEXT:
        return f"{path} == {json.dumps(value, ensure_ascii=False)}"
    if isinstance(value, int) and -MAX_FILTER_INTEGER <= value <= MAX_FILTER_INTEGER:  # a bool is an int, too
        return f"{path} == {json.dumps(value)}"
    return ""


def inner_path(path: str, name: object) -> str:
    """Return the expression for the entry `name` of the table at `path`; "" if either has no expression."""
    return f"{path}[{json.dumps(name, ensure_ascii=False)}]" if path and isinstance(name, str) else ""


def shown(value: Any) -> Any:
    """Return a value as a page can show it: shortened, or as text."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        return str(value)
    return value


def rest_of_entries(at: int, end: int) -> Field:
    """Return the field that stands for the entries beyond `MAX_ENTRIES`."""
    return Field(name="more entries", start=at, end=end, type="bytes", value=f"{end - at} bytes")
