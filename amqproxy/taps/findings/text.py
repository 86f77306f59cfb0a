"""Findings as lines for a person."""

from __future__ import annotations

from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.taps.text import RED, RESET, YELLOW, clock, printable

_COLOURS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: ""}


class FindingLines:
    """Makes lines of findings; the first of a kind has two more, which say why it matters and what to do."""

    def __init__(self, *, is_coloured: bool = False) -> None:
        self._is_coloured = is_coloured
        self._explained: set[str] = set()

    def line(self, finding: Finding) -> str:
        """The time (UTC), the connection's number, the channel, the severity and the kind, and what was seen."""
        channel = "" if finding.channel is None else f"ch {finding.channel}"
        count = f" ({finding.count} times)" if finding.count > 1 else ""
        text = f"{clock(finding.ts_ns)} #{finding.stream:<3} ! {channel:<7} {finding.severity.upper()} {finding.kind}: "
        text += f"{printable(finding.text)}{count}"
        colour = _COLOURS[finding.severity] if self._is_coloured else ""
        if colour:
            text = f"{colour}{text}{RESET}"
        if finding.kind in self._explained:
            return text
        self._explained.add(finding.kind)
        return f"{text}\n{'':23}why: {finding.why}\n{'':23}do:  {finding.remedy}"
