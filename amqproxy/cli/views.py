"""Views of captures that `amqproxy decode` prints, by its options."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import msgspec

from amqproxy.bodies.addon_bodies import decoded_body
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.time_window import Moment, TimeWindow, moment
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import WorstFinding, renderer, report_json, report_renderer, wanted
from amqproxy.cli.terminal_lines import TerminalView, on_terminal
from amqproxy.process.log import is_coloured
from amqproxy.taps.observer import ObserverSettings
from amqproxy.views.columns import Columns, Render, header_line, json_lines, kinds_shown, separated_lines
from amqproxy.views.dialogue import USUAL_BODY, Dialogue
from amqproxy.views.histogram import has_blocks
from amqproxy.views.ladder import USUAL_ROWS, Ladder
from amqproxy.views.ladder_svg import ladder_svg
from amqproxy.views.ladder_text import PLAIN, UNICODE, ladder_lines
from amqproxy.views.ladder_view import LadderView
from amqproxy.views.life_view import LifeView
from amqproxy.views.record_lines import FrameColumns, FrameJSONLines, FrameLines, ReportLines
from amqproxy.views.statistics_report import USUAL_TOP
from amqproxy.views.statistics_view import StatisticsView
from amqproxy.views.view import View

FIELDS_BODY = 1024
"""Default number of body bytes in the field `body`."""

TAB = "tab"


class ViewOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that select the view and its format."""

    messages: bool = False
    life: str | None = None
    findings: bool = False
    json: bool = False
    filter: str | None = None
    body: int = 0
    fields: str | None = None
    header: bool = False
    separator: str = TAB
    is_for_spreadsheets: bool = False
    has_both_legs: bool = False
    sequence: bool = False
    is_picture: bool = False
    limit: int | None = None
    stats: bool = False
    top: int | None = None


def view_of(options: ViewOptions, selection: Selection, worst: WorstFinding) -> View:
    """Return the view of the options; `worst` keeps the worst finding in it."""
    if options.limit is not None and not options.sequence:
        raise Failure("decode: --limit needs --sequence or --svg", MISUSED)
    if options.sequence:
        return _ladder(options, selection)
    if options.stats:
        _check_alone(options, "--stats")
        if options.has_both_legs:
            raise Failure("decode: --stats counts what passed on one leg: choose --leg client or upstream", MISUSED)
        top = USUAL_TOP if options.top is None else options.top
        if top < 1:
            raise Failure(f"--top {top}: it must be at least 1", MISUSED)
        blocks = has_blocks(sys.stdout)
        statistics = StatisticsView(selection, wanted(options.filter), json=options.json, blocks=blocks, top=top)
        return statistics if options.json else TerminalView(statistics)
    if options.top is not None:
        raise Failure("decode: --top needs --stats", MISUSED)
    if options.life is not None:
        _check_alone(options, "--life")
        if options.filter is not None:
            raise Failure("decode: --life follows messages across connections: it takes no --filter", MISUSED)
        return LifeView(selection, options.life, json=options.json, lay_out=on_terminal(str))
    if options.fields is not None:
        return _columns(options, options.fields, selection, worst)
    if options.messages or options.findings:
        settings = ObserverSettings(messages=options.messages, findings=options.findings, body=options.body)
        return ReportLines(report_renderer(options.json), selection, wanted(options.filter), settings, worst.note)
    if selection.is_conversation and not options.json:
        body, has_colours = options.body or USUAL_BODY, is_coloured(sys.stdout)
        return TerminalView(
            Dialogue(selection, wanted(options.filter), body=body, is_coloured=has_colours, decoded_body=decoded_body)
        )
    selected = wanted(options.filter)
    if options.json:
        return FrameJSONLines(selection, selected, body=options.body, has_both_legs=options.has_both_legs)
    render = renderer(json=False)
    return FrameLines(render, selection, selected, body=options.body, has_both_legs=options.has_both_legs)


def _check_alone(options: ViewOptions, option: str) -> None:
    """Refuse options that belong to another view."""
    others = {"--messages": options.messages, "--findings": options.findings, "--fields": options.fields is not None}
    others |= {"--body": options.body != 0, "--life": options.life is not None}
    for other, is_given in others.items():
        if is_given and other != option:
            raise Failure(f"decode: {option} and {other} exclude each other", MISUSED)


def _ladder(options: ViewOptions, selection: Selection) -> View:
    _check_alone(options, "--svg" if options.is_picture else "--sequence")
    for other, is_given in (("--json", options.json), ("--stats", options.stats)):
        if is_given:
            raise Failure(f"decode: --sequence and {other} exclude each other", MISUSED)
    most = USUAL_ROWS if options.limit is None else options.limit
    if most < 1:
        raise Failure(f"--limit {most}: it must be at least 1", MISUSED)
    draw = ladder_svg if options.is_picture else _ladder_lines
    return LadderView(selection, wanted(options.filter), draw, most=most)


def _ladder_lines(ladder: Ladder) -> Iterator[str]:
    """Return the lines of a sequence diagram as wide as the terminal, in its character set."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    has_lines = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return ladder_lines(ladder, width=width, style=UNICODE if has_lines else PLAIN)


def _columns(options: ViewOptions, fields: str, selection: Selection, worst: WorstFinding) -> View:
    chosen = chosen_fields(options, fields)
    render, heading, body = chosen.render, chosen.heading, chosen.body
    if options.messages or options.findings:
        settings = ObserverSettings(messages=options.messages, findings=options.findings, body=body)
        return ReportLines(
            lambda report: render(report_json(report))[0],
            selection,
            wanted(options.filter),
            settings,
            worst.note,
            heading=heading,
        )
    return FrameColumns(
        render,
        selection,
        wanted(options.filter),
        body=body,
        heading=heading,
        has_both_legs=options.has_both_legs,
    )


class ChosenFields(msgspec.Struct, frozen=True):
    """Line format of `--fields`: the `heading`, if any, and the number of `body` bytes that it needs."""

    render: Render
    heading: str | None
    body: int


def chosen_fields(options: ViewOptions, fields: str) -> ChosenFields:
    """Return the line format of these fields, by the other options."""
    names = [name.strip() for name in fields.split(",") if name.strip()]
    if not names:
        raise Failure("--fields: name fields, separated by commas", MISUSED)
    try:
        columns = Columns(names, kinds_shown(messages=options.messages, findings=options.findings))
    except ValueError as error:
        raise Failure(f"--fields: {error}", MISUSED) from None
    separator = _separator(options.separator)
    if options.json:
        render = json_lines(columns)
    else:
        render = separated_lines(columns, separator, is_for_spreadsheets=options.is_for_spreadsheets)
    heading = header_line(columns, separator) if options.header and not options.json else None
    needs_body = any(name.partition(".")[0] in ("body", "decoded") for name in names)
    return ChosenFields(render, heading, options.body or FIELDS_BODY * needs_body)


def _separator(text: str) -> str:
    if text in (TAB, "\t", "\\t"):
        return "\t"
    if len(text) != 1 or not text.isprintable() or text == '"':
        raise Failure(f"--separator {text}: it must be one character, such as , or ;, or tab", MISUSED)
    return text


def time_window(start: str | None, end: str | None) -> TimeWindow | None:
    """Return the time window of these options; `None` without them."""
    if start is None and end is None:
        return None
    return TimeWindow(_moment("--start", start), _moment("--end", end))


def _moment(option: str, text: str | None) -> Moment | None:
    if text is None:
        return None
    try:
        return moment(text)
    except ValueError as error:
        raise Failure(f"{option}: {error}", MISUSED) from None
