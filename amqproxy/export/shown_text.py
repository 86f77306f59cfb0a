"""Texts as a person may see them in a page: nothing that a peer sends is markup there, or invisible, or reordered."""

from __future__ import annotations

import html

from amqproxy.views.columns import iso_time

MAX_TEXT = 300
"""Characters of a name or a reason that are shown."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def shown(text: str, most: int = MAX_TEXT) -> str:
    """A text for HTML. What cannot be printed is escaped as in Python, such as line breaks and marks of direction."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(
        "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut), quote=True
    )


def duration(seconds: float) -> str:
    """A time with its unit: "1.23 ms"."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:,.0f} {unit}"
    return ""


def byte_count(size: float) -> str:
    """A number of bytes with its unit: "1.5 KiB"."""
    place = 0
    while size >= 1024 and place < len(_UNITS) - 1:
        size, place = size / 1024, place + 1
    return f"{size:,.0f} {_UNITS[place]}" if not place or size >= 1000 else f"{size:.3g} {_UNITS[place]}"


def number(count: float) -> str:
    """A number with its thousands apart."""
    return f"{count:,.0f}" if count == int(count) or count >= 100 else f"{count:.3g}"


def moment(ts_ns: int) -> str:
    """A time to the millisecond, in UTC; the seconds since 1970 for what no calendar has."""
    date, _, clock = iso_time(ts_ns).partition("T")
    return f"{date} {clock[:12]}" if clock else date[:-6]
