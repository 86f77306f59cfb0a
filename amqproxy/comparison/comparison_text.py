"""Reports of a comparison as text lines, with control characters escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from amqproxy.comparison.comparison import (
    ComparedConnection,
    ComparisonReport,
    ComparisonSummary,
    ConnectionsCompared,
    LatenciesCompared,
    LatencySummary,
)
from amqproxy.comparison.difference import Change, Difference, DifferenceKind
from amqproxy.taps.message_text import duration
from amqproxy.taps.text import RED, RESET, YELLOW, clock, printable, value_text

_SIGNS = {
    DifferenceKind.MISSING: "-",
    DifferenceKind.EXTRA: "+",
    DifferenceKind.MOVED: ">",
    DifferenceKind.CHANGED: "~",
}

_COLOURS = {DifferenceKind.MISSING: RED, DifferenceKind.EXTRA: RED}

MAX_VALUE = 200
"""Characters of a value that are shown; `--json` prints all of it."""


def comparison_lines(
    reports: Iterable[ComparisonReport], *, limit: int = 0, is_coloured: bool = False
) -> Iterator[str]:
    """Yield the first `limit` differences of each pair of connections, 0 for all; then latencies and totals."""
    pair: ConnectionsCompared | None = None
    count = 0
    has_latencies = False
    for report in reports:
        match report:
            case ConnectionsCompared():
                yield from _more(count, limit)
                pair, count = report, 0
            case Difference():
                if not count and pair is not None:
                    yield _pair_line(pair)
                count += 1
                if not limit or count <= limit:
                    yield from difference_lines(report, is_coloured=is_coloured)
            case LatenciesCompared():
                if not has_latencies:
                    yield from _more(count, limit)
                    count, has_latencies = 0, True
                    sides = (f"{f'{side}: count':>10} {'p50':>9} {'p99':>9}" for side in "AB")
                    yield f"{'latency of':24} {'   '.join(sides)}"
                yield f"{report.kind:24} {_latency(report.a)}   {_latency(report.b)}"
            case ComparisonSummary():
                yield from _more(count, limit)
                yield from _summary_lines(report)


def _more(count: int, limit: int) -> Iterator[str]:
    if limit and count > limit:
        yield f"  … and {count - limit} more of these connections: --limit 0 shows all"


def _pair_line(pair: ConnectionsCompared) -> str:
    return f"{_side('A', pair.a)} ↔ {_side('B', pair.b)}  ({printable(pair.why)})"


def _side(name: str, connection: ComparedConnection | None) -> str:
    if connection is None:
        return f"{name} none"
    return f"{name} #{connection.stream} {printable(connection.connection)}"


def difference_lines(difference: Difference, *, is_coloured: bool = False) -> Iterator[str]:
    """Yield the line of a difference, and a line for each of its changes."""
    place = difference.a or difference.b
    channel = f"ch {place.channel}" if place is not None and place.channel is not None else ""
    time = "" if place is None else clock(place.ts_ns)
    line = f"  {_SIGNS[difference.kind]} {time} {channel:<7} {difference.what}  ({difference.kind})"
    yield f"{_COLOURS.get(difference.kind, YELLOW)}{line}{RESET}" if is_coloured else line
    for change in difference.changes:
        yield f"      {_change_text(change)}"


def _change_text(change: Change) -> str:
    before, after = _value(change.before), _value(change.after)
    field = printable(change.field)
    if change.at is None:
        return f"{field}: {before} → {after}"
    if change.at < 0:
        return f"{field}: differs, behind what is kept of it"
    return f"{field} from byte {change.at}: {before} → {after}"


def _value(value: Any) -> str:
    if value is msgspec.UNSET:
        return "(none)"
    text = value_text(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _latency(summary: LatencySummary | None) -> str:
    if summary is None:
        return f"{'-':>10} {'-':>9} {'-':>9}"
    return f"{summary.count:>10} {duration(summary.p50):>9} {duration(summary.p99):>9}"


def _summary_lines(summary: ComparisonSummary) -> Iterator[str]:
    for side, connections in summary.connections.items():
        commands = _count(summary.commands[side], "command")
        yield f"{side.upper()}: {_count(connections, 'connection')}, {commands}"
    if summary.omitted_connections:
        yield f"not compared: {_count(summary.omitted_connections, 'connection')}, which are too many"
    if not summary.is_same and (total := sum(summary.differences.values())):
        kinds = ", ".join(f"{count} {kind}" for kind, count in summary.differences.items() if count)
        yield f"{_count(total, 'difference')}: {kinds}"
    elif summary.is_same:
        yield "no difference"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
