"""The tables of docs/metrics.md."""

import re
from dataclasses import dataclass

from tests.monitoring.alert_rules import ROOT


@dataclass(frozen=True)
class Entry:
    """One metric. `series` is a number, or says on what the number depends."""

    name: str
    type: str
    unit: str
    labels: frozenset[str]
    series: str
    text: str


def entries() -> list[Entry]:
    found = []
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        if line.startswith("| `"):
            name, type, unit, labels, series, text = (cell.strip() for cell in line.strip("|").split("|"))
            names = frozenset(re.findall(r"`(\w+)`", labels))
            found.append(Entry(name.strip("`"), type, unit, names, series.strip("`"), text))
    return found
