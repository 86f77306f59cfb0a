"""Texts made safe for display in a page: nothing that a peer sends is markup there, or invisible, or reordered."""

from __future__ import annotations

import html

from amqproxy.views.columns import iso_time

MAX_TEXT = 300
"""Characters of a name or a reason that are shown."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def shown(text: str, most: int = MAX_TEXT) -> str:
    """Escape a text for HTML; unprintable characters such as line breaks and direction marks become Python escapes."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(
        "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut), quote=True
    )


def duration(seconds: float) -> str:
    """Format a duration with its unit: "1.23 ms"."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:,.0f} {unit}"
    return ""


def byte_count(size: float) -> str:
    """Format a number of bytes with its unit: "1.5 KiB"."""
    place = 0
    while size >= 1024 and place < len(_UNITS) - 1:
        size, place = size / 1024, place + 1
    return f"{size:,.0f} {_UNITS[place]}" if not place or size >= 1000 else f"{size:.3g} {_UNITS[place]}"


def number(count: float) -> str:
    """Format a number with thousands separators."""
    return f"{count:,.0f}" if count == int(count) or count >= 100 else f"{count:.3g}"


def moment(ts_ns: int) -> str:
    """Format a time to the millisecond, in UTC; seconds since 1970 if it is out of the calendar's range."""
    date, _, clock = iso_time(ts_ns).partition("T")
    return f"{date} {clock[:12]}" if clock else date[:-6]
