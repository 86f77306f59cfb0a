"""Charts as inline SVG: colours come from the page's style, and texts must already be escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from amqproxy.views.columns import iso_time

WIDTH, HEIGHT = 580, 200
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 14, 22
TICKS = 4


class Series(msgspec.Struct, frozen=True):
    """A line of a chart over time: its name, its colour number, and a value for each bin."""

    name: str
    colour: int
    values: Sequence[float]


class Bar(msgspec.Struct, frozen=True):
    """A bar of a histogram: its label and count."""

    name: str
    count: int


class Mark(msgspec.Struct, frozen=True):
    """A vertical line across a histogram: its position in bars, and its label."""

    place: float
    text: str


def time_chart(title: str, starts_ns: Sequence[int], width_ns: int, series: Sequence[Series], unit: str) -> str:
    """Draw values over time as steps; series of zeros are omitted."""
    drawn = [each for each in series if any(each.values)]
    if not starts_ns or not drawn:
        return _nothing(title)
    most, step = _scale(max(max(each.values) for each in drawn))
    begin, end = starts_ns[0], starts_ns[-1] + width_ns

    def x(ts_ns: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (ts_ns - begin) / (end - begin)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most

    parts = [*_value_axis(most, step, y, unit), *_time_axis(begin, end, x)]
    for each in drawn:
        points = [f"M{x(begin):.1f} {y(0):.1f}"]
        for start, value in zip(starts_ns, each.values, strict=True):
            points.append(f"V{y(value):.1f}H{x(start + width_ns):.1f}")
        points.append(f"V{y(0):.1f}")
        path = "".join(points)
        parts.append(
            f'<path class="area c{each.colour}" d="{path}Z"/><path class="line c{each.colour}" d="{path}">'
            f"<title>{each.name}</title></path>"
        )
    legend = "".join(f'<span class="key c{each.colour}">{each.name}</span>' for each in drawn)
    return _figure(title, parts, legend)


def histogram(title: str, bars: Sequence[Bar], marks: Sequence[Mark] = (), *, colour: int = 1) -> str:
    """Draw a bar for each count."""
    if not bars:
        return _nothing(title)
    most, step = _scale(max(bar.count for bar in bars))
    width = (WIDTH - LEFT - RIGHT) / len(bars)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most

    parts = _value_axis(most, step, y, "")
    labelled = max(1, math.ceil(len(bars) / 9))
    for place, bar in enumerate(bars):
        left, gap = LEFT + place * width, min(2.0, width / 5)
        parts.append(
            f'<rect class="bar c{colour}" x="{left + gap / 2:.1f}" y="{y(bar.count):.1f}" width="{width - gap:.1f}"'
            f' height="{max(y(0) - y(bar.count), 0):.1f}"><title>{bar.name}: {bar.count:,}</title></rect>'
        )
        if place % labelled == 0:
            parts.append(f'<text x="{left + width / 2:.1f}" y="{HEIGHT - BOTTOM + 16}" class="mid">{bar.name}</text>')
    for mark in marks:
        at = LEFT + mark.place * width
        parts.append(f'<path class="mark" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"><title>{mark.text}</title></path>')
    return _figure(title, parts, "".join(f"<span>{mark.text}</span>" for mark in marks))


def _figure(title: str, parts: Sequence[str], legend: str) -> str:
    return (
        f"<figure><figcaption>{title}{f'<span>{legend}</span>' if legend else ''}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg></figure>'
    )


def _nothing(title: str) -> str:
    return f'<figure><figcaption>{title}</figcaption><p class="none">none</p></figure>'


def _scale(largest: float) -> tuple[float, float]:
    """Return a round number not less than the largest value, and the step between ticks."""
    if largest <= 0:
        return 1.0, 1.0
    rough = largest / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999999)
    return math.ceil(largest / step * 0.999999) * step, step


def _value_axis(most: float, step: float, y: Callable[[float], float], unit: str) -> list[str]:
    parts = []
    for place in range(round(most / step) + 1):
        value = place * step
        parts.append(
            f'<path class="grid" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/>'
            f'<text class="end" x="{LEFT - 6}" y="{y(value) + 4:.1f}">{_short(value)}</text>'
        )
    if unit:
        parts.append(f'<text class="unit" x="{LEFT + 4}" y="{TOP - 3}">{unit}</text>')
    return parts


def _time_axis(begin: int, end: int, x: Callable[[float], float]) -> list[str]:
    step = _time_step((end - begin) / 6)
    parts = []
    at = -(-begin // step) * step
    while at <= end:
        text = _moment(at, step)
        place = min(max(x(at), LEFT + 20), WIDTH - 30)
        parts.append(
            f'<path class="tick" d="M{x(at):.1f} {HEIGHT - BOTTOM}v4"/>'
            f'<text class="mid" x="{place:.1f}" y="{HEIGHT - BOTTOM + 16}">{text}</text>'
        )
        at += step
    return parts


def _moment(at_ns: int, step: int) -> str:
    """Format a time with the precision that the step between ticks requires."""
    date, _, clock = iso_time(at_ns).partition("T")
    if not clock:
        return date.partition(".")[0]  # out of the calendar's range
    if step >= 3600 * 10**9:
        return f"{date[5:]} {clock[:5]}"
    return clock[: 8 if step >= 10**9 else 12 if step >= 10**6 else 15]


def _time_step(rough_ns: float) -> int:
    """Return a round step not less than `rough_ns`."""
    second = 10**9
    for step in (
        second * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200)
    ):
        if rough_ns <= step and rough_ns > second / 2:
            return step
    if rough_ns <= second / 2:
        power = 10 ** math.floor(math.log10(max(rough_ns, 1)))
        return int(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough_ns))
    return math.ceil(rough_ns / (86400 * second)) * 86400 * second


def _short(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"
