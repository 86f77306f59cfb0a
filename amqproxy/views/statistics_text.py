"""The figures of `--stats` as lines for human readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from amqproxy.taps.message_text import duration
from amqproxy.taps.text import clock, counted, printable, value_text
from amqproxy.views.columns import iso_time
from amqproxy.views.histogram import bar, sparkline
from amqproxy.views.statistics import Measured, Statistics, TopConnections, TopNames

BAR = 40
"""Characters of the longest bar of a histogram."""

MAX_NAME = 60
"""Characters of a name that are shown."""


def statistics_lines(found: Statistics, *, blocks: bool) -> Iterator[str]:
    """Yield all figures except empty ones; with `blocks`, bars use Unicode block characters."""
    yield from _head(found)
    yield from _messages(found)
    yield from _timeline(found, blocks=blocks)
    latencies = found.latencies
    for title, measured in (
        ("From publish to confirm", latencies.publish_to_confirm),
        ("From delivery to acknowledgement", latencies.delivery_to_ack),
        ("From protocol header to connection.open-ok", latencies.connection_to_open),
    ):
        if isinstance(measured, Measured):
            yield from _histogram(title, measured, duration, blocks=blocks)
    yield from _requests(latencies.requests)
    for title, measured in (
        ("Sizes of published bodies", found.sizes.published),
        ("Sizes of delivered bodies", found.sizes.delivered),
    ):
        if isinstance(measured, Measured):
            yield from _histogram(title, measured, size_text, blocks=blocks)
    yield from _top_connections("Connections with the most bytes", found.top.connections)
    yield from _top_connections("Users with the most bytes", found.top.users)
    yield from _top_names("Exchanges published to", found.top.exchanges, unnamed="(default)")
    yield from _top_names("Routing keys published with", found.top.routing_keys)
    yield from _top_names("Queues delivered from", found.top.queues)
    yield from _errors(found)
    yield from _findings(found)


def _head(found: Statistics) -> Iterator[str]:
    frames = sum(each.frames for each in found.frames.values())
    size = sum(each.bytes for each in found.frames.values())
    what = f"{counted(found.connections, 'connection')}, {counted(frames, 'frame')}, {size_text(size)}"
    if found.start_ns is None or found.end_ns is None:
        yield what
    else:
        yield f"{iso_time(found.start_ns)} to {clock(found.end_ns)}, {duration(found.seconds)}: {what}"
    if frames:
        rows = [
            [
                f"  {'→' if side == 'client' else '←'} from the {side}",
                each.frames,
                each.heartbeats,
                size_text(each.bytes),
            ]
            for side, each in found.frames.items()
        ]
        yield from _table(["", "frames", "heartbeats", "bytes"], rows)
    if found.lost_bytes:
        yield f"  {size_text(found.lost_bytes)} could not be read, or are not in the captures"


def _messages(found: Statistics) -> Iterator[str]:
    totals = found.messages
    rows = [[f"  {name.replace('_', ' ')}", each] for name, each in msgspec.structs.asdict(totals).items() if each]
    if not rows:
        return
    rates = {"  published": found.rates.published, "  delivered": found.rates.delivered}
    for row in rows:
        rate = rates.get(row[0], 0)
        row.append(f"{_rate(rate)}/s" if rate else "")
    yield from _section("Messages", ["count", "rate"], rows)


def _timeline(found: Statistics, *, blocks: bool) -> Iterator[str]:
    timeline, rates = found.timeline, found.rates
    if len(timeline.bytes) < 2:
        return
    yield ""
    yield f"Over time, {duration(timeline.seconds)} a character"
    for name, values, most in (
        ("published", timeline.published, f"{_rate(rates.most_published)}/s"),
        ("delivered", timeline.delivered, f"{_rate(rates.most_delivered)}/s"),
        ("bytes", timeline.bytes, f"{size_text(rates.most_bytes)}/s"),
    ):
        if any(values):
            yield f"  {name:<9}  |{sparkline(values, blocks=blocks)}|  at most {most}"


def _histogram(title: str, measured: Measured, text: Any, *, blocks: bool) -> Iterator[str]:
    yield ""
    if measured.least == measured.most:
        yield f"{title}: {measured.count:,} measured; {text(measured.most)}"
        return
    figures = [("least", measured.least), ("mean", measured.mean), ("p50", measured.p50), ("p90", measured.p90)]
    figures += [("p99", measured.p99), ("p99.9", measured.p999), ("most", measured.most)]
    shown = ", ".join(f"{name} {text(value)}" for name, value in figures)
    yield f"{title}: {measured.count:,} measured; {shown}"
    most = max(each.count for each in measured.intervals)
    width = max(len(f"{each.count:,}") for each in measured.intervals)
    empty = 0
    for each in measured.intervals:
        empty = 0 if each.count else empty + 1
        if empty > 2:
            if empty == 3:
                yield f"  {'…':>10}"
            continue
        bound = "more" if each.up_to is None else f"≤ {text(each.up_to)}"
        yield f"  {bound:>10}  {each.count:>{width},}  {bar(each.count, most, BAR, blocks=blocks)}".rstrip()


def _requests(requests: dict[str, Measured]) -> Iterator[str]:
    if not requests:
        return
    rows = [
        [f"  {name}", each.count, *(duration(value) for value in (each.mean, each.p50, each.p90, each.p99, each.most))]
        for name, each in sorted(requests.items(), key=lambda each: -each[1].count)
    ]
    yield from _section("From request to reply", ["count", "mean", "p50", "p90", "p99", "most"], rows)


def _top_connections(title: str, found: TopConnections) -> Iterator[str]:
    if not found.top:
        return
    rows = [
        [
            f"  {_name(each.name)}",
            _with_error(each.bytes, each.error, size_text),
            each.frames,
            each.published,
            each.delivered,
        ]
        for each in found.top
    ]
    yield from _section(title, ["bytes", "frames", "published", "delivered"], rows, is_exact=found.is_exact)


def _top_names(title: str, found: TopNames, *, unnamed: str = '""') -> Iterator[str]:
    if not found.top:
        return
    rows = [
        [
            f"  {unnamed if each.name == '' else _name(each.name)}",
            _with_error(each.messages, each.error, lambda count: f"{count:,}"),
            size_text(each.bytes),
        ]
        for each in found.top
    ]
    yield from _section(title, ["messages", "bytes"], rows, is_exact=found.is_exact)


def _errors(found: Statistics) -> Iterator[str]:
    if not found.errors:
        return
    rows = [[f"  {error_text(each.kind, each.by, each.code, each.text)}", each.count] for each in found.errors]
    yield from _section("Errors", ["count"], rows)


def error_text(kind: str, by: str | None, code: int | None, text: str) -> str:
    """Describe an error in words."""
    whose = f" by {by}" if by and kind in ("channel-closed", "connection-closed") else ""
    whose = f" from {by}" if by and kind == "unreadable" else whose
    reason = " ".join(part for part in (str(code or ""), printable(text)) if part)
    return f"{kind}{whose}{': ' if reason else ''}{reason}"


def _findings(found: Statistics) -> Iterator[str]:
    if not isinstance(found.findings, list) or not found.findings:
        return
    rows = [[f"  {each.severity.upper()} {each.kind}", each.count, each.connections] for each in found.findings]
    yield from _section("Findings (--findings explains them)", ["count", "connections"], rows)


def _section(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], *, is_exact: bool = True
) -> Iterator[str]:
    """Yield a table whose title is the head of the first column."""
    yield ""
    yield from _table([title if is_exact else f"{title} (about)", *heads], rows)
    if not is_exact:
        yield "  There are too many to count each: ± is by how much a figure may be too large."


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield lines of columns, the first left-aligned, all others right-aligned."""
    texts = [[f"{each:,}" if isinstance(each, int) else str(each) for each in row] for row in rows]
    widths = [max(len(row[column]) for row in [heads, *texts]) for column in range(len(heads))]
    for row in [heads, *texts]:
        first = f"{row[0]:<{widths[0]}}"
        others = (f"{each:>{width}}" for each, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([first, *others]).rstrip()


def _name(name: Any) -> str:
    if name is None:
        return "(not seen)"
    text = value_text(name)
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def _with_error(value: int, error: int, text: Any) -> str:
    return f"{text(value)} ±{text(error)}" if error else str(text(value))


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def size_text(size: float) -> str:
    """Format a number of bytes: 12 B, 4.1 KiB, 23 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
