"""A part of a frame in its bytes, as the panes of a frame show it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

MAX_TEXT = 4096
"""Characters of a value; the bytes have the rest."""

MAX_ENTRIES = 1000
"""Entries of a table, or of a list; the bytes have the rest."""

SAFE_INTEGER = 2**53
"""Numbers beyond it are texts, since JavaScript does not have them exactly."""

MAX_FILTER_TEXT = 256
"""Characters of a text for which there is an expression."""

MAX_FILTER_INTEGER = 2**63 - 1


class Field(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a frame, in its bytes from `start` to `end`. `filter` is an expression for what is alike."""

    name: str
    start: int
    end: int
    type: str = ""
    value: Any = None
    filter: str = ""
    children: tuple[Field, ...] = ()


def filter_for(path: str, value: Any) -> str:
    """The expression for what is alike; none for what is too long, or has no literal."""
    if isinstance(value, str) and len(value) <= MAX_FILTER_TEXT:
        return f"{path} == {json.dumps(value, ensure_ascii=False)}"
    if isinstance(value, int) and -MAX_FILTER_INTEGER <= value <= MAX_FILTER_INTEGER:  # so is a bool
        return f"{path} == {json.dumps(value)}"
    return ""


def inner_path(path: str, name: object) -> str:
    """The expression for what is under a name in what `path` is the expression for; none where either has none."""
    return f"{path}[{json.dumps(name, ensure_ascii=False)}]" if path and isinstance(name, str) else ""


def shown(value: Any) -> Any:
    """A value as a page can show it: cut, or as text."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        return str(value)
    return value


def rest_of_entries(at: int, end: int) -> Field:
    """What stands for entries beyond the most that are shown."""
    return Field(name="more entries", start=at, end=end, type="bytes", value=f"{end - at} bytes")
