"""Individually listed findings of captures, a limited number of each kind."""

from __future__ import annotations

import msgspec

from amqproxy.taps.findings.finding import Finding, is_reported

MAX_FINDINGS = 50
"""Listed findings of one kind."""


class KindOfFinding(msgspec.Struct):
    """The findings of one kind: some of them, the number of others, and the total of occurrences."""

    findings: list[Finding]
    more: int = 0
    count: int = 0


class FindingList:
    """At most `most` findings of each kind: the first, the tenth, the hundredth … of each connection."""

    def __init__(self, most: int = MAX_FINDINGS) -> None:
        self.kinds: dict[str, KindOfFinding] = {}
        self._most = most

    def add(self, finding: Finding) -> None:
        """Count a finding, and list it if there is room."""
        kind = self.kinds.get(finding.kind)
        if kind is None:
            kind = self.kinds[finding.kind] = KindOfFinding([])
        kind.count += 1
        if not is_reported(finding.count):
            return
        if len(kind.findings) < self._most:
            kind.findings.append(finding)
        else:
            kind.more += 1

    def in_order(self) -> list[tuple[str, KindOfFinding]]:
        """Return the kinds and their findings, the most severe first, then the most frequent."""
        return sorted(
            self.kinds.items(), key=lambda each: (-each[1].findings[0].severity.rank, -each[1].count, each[0])
        )
