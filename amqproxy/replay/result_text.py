"""Text of a replay's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from amqproxy.comparison.difference import Change, Difference, DifferenceKind, SentOtherwise
from amqproxy.replay.result import ReplayResult

_SIGNS = {DifferenceKind.MISSING: "-", DifferenceKind.EXTRA: "+", DifferenceKind.CHANGED: "~"}


def difference_line(difference: Difference) -> str:
    """Return a difference on one line: `-` for missing, `+` for extra, `~` for changed, `>` for sent otherwise."""
    place = difference.a or difference.b
    where = "" if place is None else f"#{place.stream}" + (f"/{place.channel}" if place.channel else "")
    sign = ">" if isinstance(difference, SentOtherwise) else _SIGNS.get(difference.kind, "~")
    text = f"{sign} {where} {difference.what}"
    if difference.changes:
        text += ": " + ", ".join(map(_change, difference.changes))
    return text


def _change(change: Change) -> str:
    place = f" from byte {change.at}" if change.at is not None and change.at >= 0 else ""
    return f"{change.field}{place}: {_value(change.before)} → {_value(change.after)}"


def _value(value: Any) -> str:
    return "nothing" if value is msgspec.UNSET else repr(value)


def result_lines(result: ReplayResult, hidden: int) -> Iterator[str]:
    """Yield the lines of totals, unplayed commands and latencies; `hidden` differences were not printed."""
    if hidden:
        yield f"… and {hidden} more differences (--limit 0 prints all)"
    for each in result.not_played:
        times = f"{each.count} times " if each.count > 1 else ""
        place = f"#{each.first.stream}" + (f"/{each.first.channel}" if each.first.channel else "")
        yield f"! {place} not played: {times}{each.method or 'bytes'}: {each.reason}"
    yield from (f"! {note}" for note in result.notes)
    if result.padded:
        yield f"! {_counted(result.padded, 'message')} of which the capture lacks a part had zeros in its place"
    retried = f", {result.retried} basic.get repeated" if result.retried else ""
    yield (
        f"{_counted(result.connections, 'connection')}, {_counted(result.sent, 'command')} sent{retried}, "
        f"{_counted(result.answers, 'answer')} compared, {_counted(result.difference_count, 'difference')}"
    )
    kinds = [kind for kind in result.recorded.kinds if result.live.summary(kind)]
    if kinds:
        width = max(map(len, kinds))
        yield f"{'latency':{width}}  {'recorded p50':>14} {'p99':>9}  {'now p50':>14} {'p99':>9}"
        for kind in kinds:
            then, now = result.recorded.summary(kind), result.live.summary(kind)
            assert then is not None
            assert now is not None
            yield (
                f"{kind:{width}}  {_seconds(then['p50']):>14} {_seconds(then['p99']):>9}"
                f"  {_seconds(now['p50']):>14} {_seconds(now['p99']):>9}"
            )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"
