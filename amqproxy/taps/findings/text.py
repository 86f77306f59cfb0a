"""Findings as lines for people."""

from __future__ import annotations

from amqproxy.taps.findings.finding import NO_CONNECTION, Finding, Severity
from amqproxy.taps.text import RED, RESET, YELLOW, clock, printable

_COLOURS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: ""}


class FindingLines:
    """Formatter of findings as lines; the first of a kind gets two more, with why it matters and the remedy."""

    def __init__(self, *, is_coloured: bool = False) -> None:
        self._is_coloured = is_coloured
        self._explained: set[str] = set()

    def line(self, finding: Finding) -> str:
        """Return a finding's time (UTC), the numbers of its connection and channel if it has them, its severity, kind
        and text, and the explanation.
        """
        channel = "" if finding.channel is None else f"ch {finding.channel}"
        count = f" ({finding.count} times)" if finding.count > 1 else ""
        number = "" if finding.stream == NO_CONNECTION else f"#{finding.stream}"
        text = f"{clock(finding.ts_ns)} {number:<4} ! {channel:<7} {finding.severity.upper()} {finding.kind}: "
        text += f"{printable(finding.text)}{count}"
        colour = _COLOURS[finding.severity] if self._is_coloured else ""
        if colour:
            text = f"{colour}{text}{RESET}"
        if finding.kind in self._explained:
            return text
        self._explained.add(finding.kind)
        return f"{text}\n{'':23}why: {finding.why}\n{'':23}do:  {finding.remedy}"
