"""Values that a client has sent, as far as they are kept of each of very many connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT = 500
"""Characters of a text."""

MAX_ENTRIES = 40
"""Entries of a table, or of a list."""

MAX_DEPTH = 4
"""Tables and lists within one another."""

MAX_VALUES = 200
"""Values in all."""


def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what is long cut; "…" stands for the rest."""
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
