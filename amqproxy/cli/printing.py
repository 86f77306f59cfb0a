"""How frames are printed on standard output, and which of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.rules.matching.filters import Filter
    from amqproxy.taps.findings.finding import Severity
    from amqproxy.taps.observer import Report
    from amqproxy.taps.record import Record


USUAL_BODY = 1024
"""Bytes of a body that `--body` shows by default."""


def with_value_of_body(arguments: list[str]) -> list[str]:
    """The arguments with `--body=1024` for a bare `--body`, where that is an option whose value may be left out."""
    if arguments[:1] not in (["decode"], ["run"], ["tail"]):
        return arguments
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [f"--body={USUAL_BODY}" if each == "--body" else each for each in arguments[:end]]
    return options + arguments[end:]


def checked_body(size: int) -> int:
    if size < 0:
        raise Failure(f"--body={size}: a number of bytes is not negative", MISUSED)
    return size


def renderer(json: bool) -> Callable[[Record], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.taps import text

    return text.line


def report_renderer(json: bool) -> Callable[[Report], str]:
    """What makes lines of messages and findings."""
    if json:
        return lambda report: report.to_json().decode()
    from amqproxy.log import is_coloured
    from amqproxy.taps.findings.finding import Finding
    from amqproxy.taps.findings.text import FindingLines
    from amqproxy.taps.message_text import message_line

    has_colours = is_coloured(sys.stdout)
    findings = FindingLines(is_coloured=has_colours)

    def render(report: Report) -> str:
        if isinstance(report, Finding):
            return findings.line(report)
        return message_line(report, is_coloured=has_colours)

    return render


class WorstFinding:
    """Notes the worst finding among reports."""

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
    from amqproxy.rules.matching.filters import compiled

    try:
        return compiled(expression)
    except ValueError as error:
        raise Failure(f"--filter: {error}", MISUSED) from None
