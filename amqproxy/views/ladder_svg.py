"""A ladder as a picture: self-contained SVG, legible on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from amqproxy.taps.text import clock, counted
from amqproxy.views.ladder import BROKER_LANE, CLIENT_LANE, PROXY_LANE, Ladder, LadderGroup, LadderRow, LadderSection
from amqproxy.views.ladder_text import group_text, lanes_of, left_out_text, row_text, section_title, since_text

ROW = 26
LEFT, RIGHT = 300, 40
"""Margins beside the lanes; the left one holds the times."""

BETWEEN_TWO, BETWEEN_THREE = 840, 560
"""Distances between lanes, with two lanes and with three."""

CHARACTER = 7.3
"""Approximate width of a character."""

GRAY, RED = "#757575", "#e61f1f"
CHANNEL_COLOURS = ("#757575", "#1d78cb", "#bd580f", "#13873b", "#a14fd3", "#0f8383", "#d32f91", "#966e32", "#5c69e2")
"""The connection's own colour, then those of channels in rotation, with a contrast of 4.5:1 to both white and black."""

_STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".t{font-weight:bold;font-size:14px}.h{font-weight:bold}.m{text-anchor:middle}.e{text-anchor:end}"
)


def ladder_svg(ladder: Ladder) -> Iterator[str]:
    """Yield the lines of an SVG document."""
    left_out = left_out_text(ladder)
    has_proxy = any(section.has_proxy for section in ladder.sections)
    span = 2 * BETWEEN_THREE if has_proxy else BETWEEN_TWO
    lanes = {CLIENT_LANE: LEFT, PROXY_LANE: LEFT + span // 2, BROKER_LANE: LEFT + span}
    width = LEFT + span + RIGHT
    pictures = [_Section(section, lanes) for section in ladder.sections]
    height = sum(picture.height for picture in pictures) + ROW * (2 if left_out else 1)
    rows = sum(len(picture.rows) for picture in pictures)
    what = f"{counted(len(pictures), 'connection')}, {counted(rows, 'row')}. {left_out}".strip()
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="group" aria-labelledby="ladder-title ladder-about">'
    )
    yield '<title id="ladder-title">AMQP sequence</title>'
    yield f'<desc id="ladder-about">Who sent what to whom, from top to bottom: {_text(what)}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        'orient="auto-start-reverse"><path d="M0 1 10 5 0 9z" fill="context-stroke"/></marker></defs>'
    )
    top = ROW // 2
    for picture in pictures:
        yield from picture.lines(top)
        top += picture.height
    if left_out:
        yield _label(12, top + ROW // 2, left_out, GRAY, "h")
    yield "</svg>"


class _Section:
    """The picture of one connection, `height` high."""

    def __init__(self, section: LadderSection, lanes: Mapping[int, int]) -> None:
        self._section = section
        self._lanes = lanes
        self.rows: list[tuple[LadderRow, LadderGroup | None]] = []
        for number in sorted(section.items):
            item = section.items[number]
            if isinstance(item, LadderRow):
                self.rows.append((item, None))
            else:
                self.rows += [(row, item) for row in item.rows]
        groups = len({group.number for _, group in self.rows if group is not None})
        self._body = ROW * (len(self.rows) + groups)
        self.height = self._body + ROW * 3 + (ROW if section.end else 0)

    def lines(self, top: int) -> Iterator[str]:
        section = self._section
        yield f'<g role="group" aria-label={_attribute(section_title(section))}>'
        yield _label(12, top + 14, section_title(section), GRAY, "t")
        heads, start = top + ROW + 14, top + ROW * 2 - 4
        for lane, name in lanes_of(section):
            yield _label(self._lanes[lane], heads, name, GRAY, "h m")
            yield _line(
                self._lanes[lane], start, self._lanes[lane], start + self._body + 8, GRAY, 'stroke-opacity=".6"'
            )
        yield '<g role="list">'
        y = start
        last_ns: int | None = None
        shown: LadderGroup | None = None
        for row, group in self.rows:
            if group is not None and group is not shown:
                yield from self._group(group, y)
                y += ROW
            if shown is not None and group is not shown:
                last_ns = shown.last_ts_ns
            shown = group
            y += ROW
            yield from self._row(row, y, since_text(row.ts_ns, last_ns))
            last_ns = row.last_ts_ns if group is None else row.ts_ns
        yield "</g>"
        if section.end:
            yield _label(self._lanes[CLIENT_LANE], y + ROW, f"over: {section.end}", GRAY, "")
        yield "</g>"

    def _group(self, group: LadderGroup, y: int) -> Iterator[str]:
        """Draw a frame around the rows of a group."""
        left, right = 6, self._lanes[BROKER_LANE] + RIGHT - 6
        height = ROW * (len(group.rows) + 1) + 1
        text = group_text(group)
        yield f'<g role="listitem" aria-label={_attribute(text)}>'
        yield (
            f'<rect x="{left}" y="{y + 6}" width="{right - left}" height="{height}" rx="6" fill="{GRAY}" '
            f'fill-opacity=".1" stroke="{GRAY}" stroke-opacity=".5"/>'
        )
        middle = (self._lanes[CLIENT_LANE] + self._lanes[BROKER_LANE]) // 2
        yield _label(middle, y + 22, text, GRAY, "h m")
        yield "</g>"

    def _row(self, row: LadderRow, y: int, since: str) -> Iterator[str]:
        colour = RED if row.is_error else _channel_colour(row.channel)
        channel = "" if row.channel is None else f"ch {row.channel}"
        start, end = self._lanes[row.source], self._lanes[row.target]
        text = row_text(row)
        names = dict(lanes_of(self._section))
        whole = f"{clock(row.ts_ns)} {channel} {names[row.source]} to {names[row.target]}: {text}"
        yield f'<g role="listitem" aria-label={_attribute(whole)}><title>{_text(whole)}</title>'
        yield _label(12, y - 2, clock(row.ts_ns), GRAY, "")
        yield _label(205, y - 2, since, GRAY, "e")
        yield _label(215, y - 2, channel, colour, "h")
        room = int((abs(end - start) - 24) / CHARACTER)
        shown = text if len(text) <= room else f"{text[: room - 1]}…"
        if start < end:
            yield _label(start + 12, y - 5, shown, colour, "")
            yield _line(start, y, end - 2, y, colour, 'marker-end="url(#head)"')
        else:
            yield _label(start - 12, y - 5, shown, colour, "e")
            yield _line(start, y, end + 2, y, colour, 'marker-end="url(#head)"')
        yield "</g>"


def _channel_colour(channel: int | None) -> str:
    return CHANNEL_COLOURS[0] if not channel else CHANNEL_COLOURS[1 + (channel - 1) % (len(CHANNEL_COLOURS) - 1)]


def _label(x: int, y: int, text: str, colour: str, styles: str) -> str:
    styled = f' class="{styles}"' if styles else ""
    return f'<text x="{x}" y="{y}" fill="{colour}"{styled}>{_text(text)}</text>'


def _line(x1: int, y1: int, x2: int, y2: int, colour: str, more: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.3" {more}/>'


def _text(text: str) -> str:
    """Escape text for XML, replacing characters that XML forbids."""
    return escape("".join(each if _is_allowed(each) else "\N{REPLACEMENT CHARACTER}" for each in text))


def _attribute(text: str) -> str:
    return quoteattr("".join(each if _is_allowed(each) else "\N{REPLACEMENT CHARACTER}" for each in text))


def _is_allowed(character: str) -> bool:
    """Whether section 2.2 of XML 1.0 allows a character, except the control characters that it allows."""
    number = ord(character)
    return 0x20 <= number < 0x7F or 0xA0 <= number < 0xD800 or 0xE000 <= number < 0xFFFE or number > 0xFFFF
