"""Error messages with a caret under the place."""

from __future__ import annotations

MAX_SHOWN = 100
"""Characters of a line that are shown; of a longer line, those around the place."""


def pointed(what: str, text: str, place: int) -> str:
    """Return an error message with line and column, the line, and a caret under the place."""
    before = text[:place]
    number = before.count("\n") + 1
    column = place - (before.rfind("\n") + 1) + 1
    line = text.split("\n")[number - 1]
    if len(line) > MAX_SHOWN:
        first = max(0, column - MAX_SHOWN // 2)
        line = f"…{line[first : first + MAX_SHOWN]}…"
        return f"{what} (line {number}, column {column})\n    {line}\n    {' ' * (column - first)}^"
    blank = "".join("\t" if each == "\t" else " " for each in line[: column - 1])
    return f"{what} (line {number}, column {column})\n    {line}\n    {blank}^"
