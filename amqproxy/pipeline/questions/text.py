"""Answers as tables for people, as JSON lines, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amqproxy.export.shown_text import byte_count, duration, number
from amqproxy.taps.record import encoded
from amqproxy.taps.text import printable
from amqproxy.views.columns import escaped, inert

if TYPE_CHECKING:
    import pyarrow as pa

MAX_WIDTH = 60
"""Maximum width of a table cell in characters."""

NOTHING = "-"


def table_lines(answer: pa.Table) -> Iterator[str]:
    """Yield a table with a header line: times in UTC, durations and sizes with their units."""
    names = answer.column_names
    rows = [[shown(name, row[name]) for name in names] for row in answer.to_pylist()]
    is_number = [str(kind).startswith(("int", "float", "double")) for kind in answer.schema.types]
    heads = [head(each) for each in names]
    widths = [max(len(cell) for cell in (heads[place], *(row[place] for row in rows))) for place in range(len(names))]
    for cells in (heads, *rows):
        yield "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, is_number, strict=True)
        ).rstrip()


def head(name: str) -> str:
    """Return the heading of a column: its name without the unit, which its values show."""
    return name.removesuffix("_ns").removesuffix("_share").replace("_", " ")


def kind(name: str, value: Any) -> str:
    """Return how a value of the column `name` is shown: flag, time, duration, bytes, share, number or text."""
    match value:
        case bool():
            return "flag"
        case datetime():
            return "time"
        case int() | float() if name.endswith("_ns"):
            return "duration"
        case int() | float() if name == "bytes" or name.endswith("_bytes"):
            return "bytes"
        case float() if name == "share" or name.endswith("_share"):
            return "share"
        case int() | float():
            return "number"
    return "text"


def shown(name: str, value: Any) -> str:
    """Format a value of the column `name` for people."""
    if value is None:
        return NOTHING
    match kind(name, value):
        case "flag":
            return "yes" if value else "no"
        case "time":
            return utc(value).isoformat(" ", "milliseconds").removesuffix("+00:00")
        case "duration":
            return f"-{duration(-value / 1e9)}" if value < 0 else duration(value / 1e9)
        case "bytes":
            return byte_count(value)
        case "share":
            return f"{round(value * 100, 3):,.12g} %"
        case "number":
            return number(value)
        case _:
            text = printable(str(value)) if value != "" else '""'
            return text if len(text) <= MAX_WIDTH else f"{text[: MAX_WIDTH - 1]}…"


def json_lines(answer: pa.Table) -> Iterator[str]:
    """Yield one JSON object per line: times as ISO 8601 in UTC, durations in ns, sizes in bytes."""
    for row in answer.to_pylist():
        yield encoded({name: _plain(value) for name, value in row.items()}).decode()


def csv_lines(answer: pa.Table) -> Iterator[str]:
    """Yield CSV with a header line.

    Unprintable characters are escaped; a quote precedes a text that a spreadsheet would read as a formula.
    """
    yield _csv_line(answer.column_names)
    for row in answer.to_pylist():
        yield _csv_line([inert(_plain(value)) for value in row.values()])


def _csv_line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    texts = ["" if cell is None else str(cell) for cell in cells]
    csv.writer(line, lineterminator="").writerow(each if each.isprintable() else escaped(each) for each in texts)
    return line.getvalue()


def _plain(value: Any) -> Any:
    return utc(value).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def utc(value: datetime) -> datetime:
    """Return a time with its zone; one without a zone is UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
