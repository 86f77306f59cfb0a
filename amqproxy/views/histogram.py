"""Bars and sparklines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = " .:-=+*#@"


def has_blocks(stream: TextIO | None) -> bool:
    """Whether a stream can show Unicode block characters; streams that are not terminals get plain text."""
    return stream is not None and stream.isatty() and (stream.encoding or "").lower().replace("-", "") == "utf8"


def bar(value: float, most: float, width: int, *, blocks: bool) -> str:
    """Return a bar proportional to `value`, `width` wide for `most`; a non-zero value always gets at least one step."""
    if not value or not most:
        return ""
    share = value / most * width
    if not blocks:
        return "#" * max(1, round(share))
    whole, rest = divmod(max(1, round(share * 8)), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def sparkline(values: Sequence[int], *, blocks: bool) -> str:
    """Render values as a sparkline; a non-zero value always gets at least the lowest bar."""
    levels = _LEVELS if blocks else _PLAIN_LEVELS
    most = max(values, default=0)
    return "".join(levels[max(1, round(value / most * 8)) if value else 0] for value in values)
