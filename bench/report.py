"""Measured figures, and the table that shows them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

import msgspec

SUBJECT = "amqproxy"


class Missing(Exception):
    """A peer is not installed; the text explains how to get it."""


class Goal(msgspec.Struct, frozen=True):
    """The ratio to reach: at least `bound`, or at most `bound` if `is_most`."""

    bound: float
    is_most: bool = False

    def is_met(self, ratio: float) -> bool:
        """Whether the ratio meets the goal."""
        return ratio <= self.bound if self.is_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.is_most else '≥'} {self.bound:g}"


class Row(msgspec.Struct, frozen=True):
    """One comparison: `figures` has the figures of each contender, one per round, in `unit`.

    The ratio is the subject's median to that of the best of `peers`; `ratios` has it round by round. Without `peers`,
    the figure itself is compared with the goal.
    """

    section: str
    name: str
    unit: str
    figures: dict[str, list[float]]
    peers: tuple[str, ...] = ()
    goal: Goal | None = None
    note: str = ""
    less_is_better: bool = False

    @property
    def peer(self) -> str | None:
        """The best installed peer, to which the ratio relates; `None` if there is none."""
        present = [name for name in self.peers if name in self.figures]
        best = min if self.less_is_better else max
        return best(present, key=lambda name: median(self.figures[name])) if present else None

    @property
    def ratio(self) -> float | None:
        """The ratio of the medians, or without `peers` the subject's median, to compare with the goal."""
        ours = median(self.figures[SUBJECT])
        if self.peer is None:
            return None if self.peers else ours
        return ours / median(self.figures[self.peer])

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        ours = self.figures[SUBJECT]
        if self.peer is None:
            return [] if self.peers else ours
        return [our / their for our, their in zip(ours, self.figures[self.peer], strict=True) if their]

    def summary(self) -> dict[str, Any]:
        """Return the row in its JSON form."""
        ratio, ratios = self.ratio, self.ratios
        return {
            "section": self.section,
            "name": self.name,
            "unit": self.unit,
            "medians": {name: median(values) for name, values in self.figures.items()},
            "figures": self.figures,
            "peer": self.peer,
            "ratio": ratio,
            "spread": [min(ratios), max(ratios)] if ratios else None,
            "goal": str(self.goal) if self.goal else None,
            "met": None if self.goal is None or ratio is None else self.goal.is_met(ratio),
            "note": self.note,
        }


def in_turns(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return one figure per contender and round, in alternating order: A B C, then C B A."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        names = list(contenders) if turn % 2 == 0 else list(contenders)[::-1]
        for name in names:
            figures[name].append(contenders[name]())
    return figures


def progress(text: str) -> None:
    """Print the name of the current measurement."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def table(rows: Iterable[Row]) -> str:
    """Render the rows under their sections: medians, then the ratio, its spread over the rounds, and the goal."""
    lines: list[str] = []
    section = ""
    columns: list[str] = []
    for row in rows:
        if row.section != section or list(row.figures) != columns:
            if row.section != section:
                lines += ["", row.section]
            section, columns = row.section, list(row.figures)
            heads = "".join(f"{name:>15}" for name in columns)
            lines.append(f"{'':36}{heads}{'ratio':>9}  {'spread':<15}goal")
        lines.append(_line(row))
    return "\n".join(lines)


def _line(row: Row) -> str:
    cells = "".join(f"{_short(median(values)):>15}" for values in row.figures.values())
    ratio, ratios = row.ratio, row.ratios
    text = f"{f'{row.name}, {row.unit}':<36}{cells}"
    if ratio is not None and row.goal:
        spread = f"{_short(min(ratios))} … {_short(max(ratios))}"
        text += f"{_short(ratio):>9}  {spread:<15}{row.goal} {'✓' if row.goal.is_met(ratio) else '✗'}"
        text += f"  of {row.peer}" if row.peer else ""
    return f"{text}  {row.note}".rstrip()


def _short(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
