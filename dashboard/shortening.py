"""Shortening of values that clients have sent and that are kept for each of very many connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT = 500
"""Maximum length of a text, in characters."""

MAX_ENTRIES = 40
"""Maximum number of entries of a table or list."""

MAX_DEPTH = 4
"""Maximum depth of nested tables and lists."""

MAX_VALUES = 200
"""Maximum number of values in all."""


def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values within these limits; "…" stands for omitted parts."""
    left = [MAX_VALUES]
    found = _shortened(values, 0, left)
    assert isinstance(found, dict)
    return found


def _shortened(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if isinstance(value, bytes):
        return value[:MAX_TEXT]
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth >= MAX_DEPTH or left[0] <= 0:
        return "…"
    if isinstance(value, Mapping):
        table: dict[str, Any] = {}
        for name, each in value.items():
            if len(table) >= MAX_ENTRIES or left[0] <= 0:
                table["…"] = "…"
                break
            table[_shortened(str(name), depth, left)] = _shortened(each, depth + 1, left)
        return table
    entries: list[Any] = []
    for each in value:
        if len(entries) >= MAX_ENTRIES or left[0] <= 0:
            entries.append("…")
            break
        entries.append(_shortened(each, depth + 1, left))
    return entries
