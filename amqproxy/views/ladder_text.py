"""A ladder as lines of text, and the texts that its pictures share."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from amqproxy.taps.message_text import duration
from amqproxy.taps.text import clock, pairs, printable
from amqproxy.views.ladder import (
    BROKER_LANE,
    CLIENT_LANE,
    PROXY_LANE,
    Ladder,
    LadderGroup,
    LadderRow,
    LadderSection,
)

USUAL_WIDTH = 120
WIDTH_WITH_PROXY = 180
LEAST_WIDTH = 90
_MARGIN = 38
"""Columns before the first lane: the bracket of a group, the time, the time since the previous row, and the channel."""


class LadderStyle(msgspec.Struct, frozen=True):
    """The characters of a ladder drawing."""

    lane: str
    line: str
    right: str
    left: str
    crossing: str
    times: str
    first: str
    among: str
    last: str
    cut: str


UNICODE = LadderStyle("│", "─", "▶", "◀", "┼", "\N{MULTIPLICATION SIGN}", "┌", "│", "└", "…")
_IN_ASCII = str.maketrans({"µ": "u", "→": "->", "…": "..", "\N{MULTIPLICATION SIGN}": "x"})
PLAIN = LadderStyle("|", "-", ">", "<", "+", "x", ",", "|", "`", "~")


def ladder_lines(ladder: Ladder, *, width: int | None = None, style: LadderStyle = UNICODE) -> Iterator[str]:
    """Yield the sections one after the other, and the number of omitted commands; in `width` columns if given."""
    lines = _ladder_lines(ladder, width, style)
    return lines if style is UNICODE else (line.translate(_IN_ASCII) for line in lines)


def _ladder_lines(ladder: Ladder, width: int | None, style: LadderStyle) -> Iterator[str]:
    for number, section in enumerate(ladder.sections):
        if number:
            yield ""
        usual = WIDTH_WITH_PROXY if section.has_proxy else USUAL_WIDTH
        yield from _Lines(section, usual if width is None else max(width, LEAST_WIDTH), style).lines()
    left_out = left_out_text(ladder)
    if left_out:
        yield ""
        yield left_out


def left_out_text(ladder: Ladder) -> str:
    """Describe the omitted commands; "" if there are none."""
    if not ladder.left_out:
        return ""
    count, connections = ladder.left_out, ladder.left_out_connections
    what = f"{count:,} more commands are" if count > 1 else "1 more command is"
    those = "" if not connections else ", among them all of "
    those += "" if not connections else f"{connections:,} connections" if connections > 1 else "1 connection"
    return f"{what} not shown{those}: choose with --follow, --filter, --start and --end, or raise --limit"


def section_title(section: LadderSection) -> str:
    """Return the heading of a connection."""
    name = f" ({printable(section.name)})" if section.name else ""
    return f"connection #{section.stream}: {' → '.join(section.connection.split('-'))}{name}"


def row_text(row: LadderRow, *, times: str = UNICODE.times) -> str:
    """Return the title, count and shared arguments of a row."""
    if row.kind.is_without_method:
        parts = [row.title, row.note, printable(row.text), _sizes(row)]
    else:
        shown = dict(row.shown)
        for name, last in row.last.items():
            if name in shown and shown[name] != last:
                shown[name] = f"{shown[name]}…{last}"
        parts = [row.title, row.note, _sizes(row), pairs(shown)]
    if row.differing:
        parts.append(f"(differing {', '.join(sorted(row.differing))})")
    counted = f"{times}{row.count:,} " if row.count > 1 else ""
    return counted + " ".join(part for part in parts if part)


def _sizes(row: LadderRow) -> str:
    if row.least is None or row.most is None:
        return ""
    return f"{row.least} bytes" if row.least == row.most else f"{row.least}…{row.most} bytes"


def group_text(group: LadderGroup) -> str:
    """Return the number of repetitions of a group, and their duration."""
    took = (group.last_ts_ns - group.rows[0].ts_ns) / 1e9
    return f"{group.times:,} times within {duration(took)}, until {clock(group.last_ts_ns)}"


def lanes_of(section: LadderSection) -> list[tuple[int, str]]:
    """Return the lanes of a section, from left to right."""
    lanes = [(CLIENT_LANE, "client"), (BROKER_LANE, "broker")]
    if section.has_proxy:
        lanes.insert(1, (PROXY_LANE, "proxy"))
    return lanes


def since_text(ts_ns: int, last_ns: int | None) -> str:
    """Return the time since the previous row."""
    if last_ns is None:
        return ""
    seconds = (ts_ns - last_ns) / 1e9
    return f"{'+' if seconds >= 0 else '-'}{duration(abs(seconds))}"


class _Lines:
    """The lines of one section."""

    def __init__(self, section: LadderSection, width: int, style: LadderStyle) -> None:
        self._section = section
        self._style = style
        lanes = lanes_of(section)
        inner = width - _MARGIN - len(lanes)
        self._places = {lane: place * (inner // (len(lanes) - 1) + 1) for place, (lane, _) in enumerate(lanes)}
        self._width = max(self._places.values()) + 1
        self._last_ns: int | None = None

    def lines(self) -> Iterator[str]:
        section = self._section
        yield section_title(section)
        yield self._heads()
        for number in sorted(section.items):
            item = section.items[number]
            if isinstance(item, LadderRow):
                yield self._row(item, " ")
                continue
            style = self._style
            yield self._margin(style.first, "") + self._drawn(group_text(item).center(self._width - 2))
            for place, row in enumerate(item.rows, 1):
                yield self._row(row, style.last if place == len(item.rows) else style.among)
            self._last_ns = item.last_ts_ns
        if section.end:
            yield f"{'':{_MARGIN}}over: {printable(section.end)}"

    def _heads(self) -> str:
        line = [" "] * (_MARGIN + self._width + 10)
        for lane, name in lanes_of(self._section):
            start = (
                _MARGIN
                + self._places[lane]
                - (0 if lane == CLIENT_LANE else len(name) - 1 if lane == BROKER_LANE else 2)
            )
            line[start : start + len(name)] = name
        return "".join(line).rstrip()

    def _margin(self, bracket: str, text: str) -> str:
        return f"{bracket} {text}"[:_MARGIN].ljust(_MARGIN)

    def _row(self, row: LadderRow, bracket: str) -> str:
        since = since_text(row.ts_ns, self._last_ns)
        self._last_ns = row.ts_ns if bracket.strip() else row.last_ts_ns
        channel = "" if row.channel is None else f"ch {row.channel}"
        margin = self._margin(bracket, f"{clock(row.ts_ns)} {since:>9}  {channel}")
        return margin + self._arrow(row)

    def _drawn(self, text: str) -> str:
        """Return text between the outer lanes."""
        return f"{self._style.lane}{text[: self._width - 2].ljust(self._width - 2)}{self._style.lane}"

    def _arrow(self, row: LadderRow) -> str:
        style, places = self._style, self._places
        drawn = [" "] * self._width
        for place in places.values():
            drawn[place] = style.lane
        start, end = sorted((places[row.source], places[row.target]))
        room = end - start - 1
        for lane, place in places.items():
            if start < place < end and lane == PROXY_LANE:
                drawn[place] = style.crossing
        text = row_text(row, times=style.times)
        text = text if len(text) <= room - 5 else f"{text[: room - 6]}{style.cut}"
        is_right = places[row.source] < places[row.target]
        filled = f" {text} ".join((style.line, style.line * (room - len(text) - 4)))
        body = f"{filled}{style.right}" if is_right else f"{style.left}{_mirrored(style, text, room)}"
        for place, character in enumerate(body, start + 1):
            if character != style.line or drawn[place] != style.crossing:
                drawn[place] = character
        return "".join(drawn)


def _mirrored(style: LadderStyle, text: str, room: int) -> str:
    return f"{style.line * (room - len(text) - 4)} {text} {style.line}"
