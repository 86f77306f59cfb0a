"""Format and selection of the frames printed on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.app.printing import Lines, PrintSettings
    from amqproxy.cli.options import Printed
    from amqproxy.rules.matching.filters import Filter
    from amqproxy.taps.findings.finding import Severity
    from amqproxy.taps.message_record import MessageRecord
    from amqproxy.taps.observer import Report
    from amqproxy.taps.record import Record


USUAL_BODY = 1024
"""Body bytes that a bare `--body` prints."""


def with_values_left_out(arguments: list[str]) -> list[str]:
    """Replace a bare `--body` by `--body=1024`, where its value is optional, and a bare `--loop` of `replay` likewise.

    A bare `--loop` is endless.
    """
    usual = _USUAL_VALUES.get(arguments[0]) if arguments else None
    if usual is None:
        return arguments
    option, value = usual
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found: list[str] = []
    for each, following in zip_longest(arguments[:end], arguments[1:end], fillvalue=""):
        is_bare = each == option and not (option == "--loop" and following.isdecimal())
        found.append(f"{option}={value}" if is_bare else each)
    return found + arguments[end:]


_BODY = ("--body", USUAL_BODY)
_USUAL_VALUES = {
    "broker": _BODY,
    "decode": _BODY,
    "export": _BODY,
    "run": _BODY,
    "tail": _BODY,
    "replay": ("--loop", 0),
}


def checked_body(size: int) -> int:
    if size < 0:
        raise Failure(f"--body={size}: give a number of at least 0", MISUSED)
    return size


def renderer(json: bool) -> Callable[[Record], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.cli.terminal_lines import on_terminal
    from amqproxy.taps import text

    return on_terminal(text.line)


def lines_of_frames(json: bool, body: int) -> Callable[[], Lines]:
    """Return a factory of writers of the same lines as `renderer`, from the bytes of frames."""
    from amqproxy.capture.json_lines import JSONLines
    from amqproxy.capture.text_lines import TextLines

    return partial(JSONLines if json else TextLines, body)


def report_json(report: Report) -> bytes:
    """Return a line of JSON, without a newline; a message has what an addon reads in its body."""
    from amqproxy.taps.message_record import MessageRecord

    return (_read_by_addons(report) if isinstance(report, MessageRecord) else report).to_json()


def _read_by_addons(record: MessageRecord) -> MessageRecord:
    from amqproxy import addons

    if record.body is None or not addons.has(addons.BODIES):
        return record
    from amqproxy.bodies.addon_bodies import with_decoded_body

    return with_decoded_body(record)


def report_renderer(json: bool) -> Callable[[Report], str]:
    """Return a renderer of messages and findings."""
    if json:
        return lambda report: report_json(report).decode()
    from amqproxy.cli.terminal_lines import on_terminal
    from amqproxy.process.log import is_coloured
    from amqproxy.taps.findings.finding import Finding
    from amqproxy.taps.findings.text import FindingLines
    from amqproxy.taps.message_text import message_line

    has_colours = is_coloured(sys.stdout)
    findings = FindingLines(is_coloured=has_colours)

    def render(report: Report) -> str:
        if isinstance(report, Finding):
            return findings.line(report)
        return message_line(_read_by_addons(report), is_coloured=has_colours)

    return on_terminal(render)


def print_settings(command: str, printed: Printed) -> PrintSettings | None:
    """Return the print settings of `command` by its options; `None` if it prints nothing."""
    from amqproxy.app.printing import PrintSettings
    from amqproxy.taps.observer import ObserverSettings

    messages, findings, json, body = printed.messages, printed.findings, printed.json, printed.body
    is_printing = printed.print or json or messages or findings
    ends_with_reader = printed.exit_on_closed_output
    if printed.filter is not None and not is_printing:
        raise Failure(f"{command}: --filter selects what is printed: it needs --print, --messages or --json", MISUSED)
    for option, is_given in (("--body", body != 0), ("--exit-on-closed-output", ends_with_reader)):
        if is_given and not is_printing:
            raise Failure(f"{command}: {option} needs --print, --messages or --json", MISUSED)
    checked_body(body)
    if not is_printing:
        return None
    observed = ObserverSettings(messages=messages, findings=findings, body=body) if messages or findings else None
    return PrintSettings(
        render=report_renderer(json) if observed else renderer(json),
        observed=observed,
        wanted=wanted(printed.filter),
        body=body,
        lines=lines_of_frames(json, body) if json or not sys.stdout.isatty() else None,
        ends_with_reader=ends_with_reader,
    )


class WorstFinding:
    """Keeps the worst finding among reports."""

    def __init__(self) -> None:
        self.severity: Severity | None = None

    def note(self, report: Report) -> None:
        severity: Severity | None = getattr(report, "severity", None)
        if severity is not None and (self.severity is None or severity.rank > self.severity.rank):
            self.severity = severity

    def is_at_least(self, level: str) -> bool:
        from amqproxy.taps.findings.finding import Severity

        return self.severity is not None and self.severity.rank >= Severity(level).rank


def wanted(expression: str | None) -> Filter | None:
    if expression is None:
        return None
    from amqproxy.rules.matching.watched_filter import WatchedFilter

    try:
        return WatchedFilter(expression, lambda text: print(f"amqproxy: --filter: {text}", file=sys.stderr))
    except ValueError as error:
        raise Failure(f"--filter: {error}", MISUSED) from None
