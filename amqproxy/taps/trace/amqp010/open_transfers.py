"""Unsettled transfers, as ranges of positions with the time of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import Span


class TransferRun(NamedTuple):
    """The transfers from position `first` to `last`, all sent at `ts_ns`, and numbered from `number` on.

    Publishes have the numbers of publishes; deliveries, to the subscription `destination`, their command ids.
    """

    first: int
    last: int
    number: int
    ts_ns: int
    destination: str | None = None

    @property
    def size(self) -> int:
        """Number of transfers in the run."""
        return self.last - self.first + 1

    @property
    def span(self) -> Span:
        """The run as a span of numbers, for events."""
        return Span(self.number, self.number + self.last - self.first, self.ts_ns, self.destination)

    def part(self, first: int, last: int) -> TransferRun:
        """Return the part of the run within these positions."""
        first, last = max(first, self.first), min(last, self.last)
        return self._replace(first=first, last=last, number=self.number + first - self.first)


def spans_of(runs: Iterable[TransferRun]) -> tuple[Span, ...]:
    """Return the runs as spans, for events."""
    return tuple([run.span for run in runs])


_last = attrgetter("last")


class OpenTransfers:
    """Open transfers as runs in the order of their positions; `count` is the number of transfers.

    Each run is taken from the budget even if nothing is left of it: the caller must keep the budget.
    """

    __slots__ = ("_budget", "_runs", "count")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._runs: list[TransferRun] = []
        self.count = 0

    def __contains__(self, position: int) -> bool:
        place = bisect_left(self._runs, position, key=_last)
        return place < len(self._runs) and self._runs[place].first <= position

    @property
    def oldest(self) -> Span | None:
        """The span of the oldest open run."""
        return self._runs[0].span if self._runs else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Ranges of the positions of all open transfers, the oldest first."""
        return tuple(Span(run.first, run.last, run.ts_ns, run.destination) for run in self._runs)

    def restore(self, runs: Sequence[TransferRun]) -> bool:
        """Open the newest of `runs`, as the budget allows; return whether these are all."""
        fitting = runs[max(0, len(runs) - max(0, self._budget.left)) :]
        self.reopen(list(fitting))
        return len(fitting) == len(runs)

    def add(self, position: int, number: int, ts_ns: int, destination: str | None = None) -> bool:
        """Open a transfer; return `False` if its position is not above all open ones, as when it was sent again."""
        runs = self._runs
        if runs:
            newest = runs[-1]
            if position <= newest.last:
                return False
            if (
                position == newest.last + 1
                and number == newest.number + newest.size
                and newest.ts_ns == ts_ns
                and newest.destination == destination
            ):
                runs[-1] = newest._replace(last=position)
                self.count += 1
                return True
        runs.append(TransferRun(position, position, number, ts_ns, destination))
        self.count += 1
        self._budget.left -= 1
        return True

    def settle(self, positions: range) -> list[TransferRun]:
        """Close the open transfers at these positions, and return them."""
        runs = self._runs
        start = end = bisect_left(runs, positions.start, key=_last)
        settled: list[TransferRun] = []
        kept: list[TransferRun] = []
        while end < len(runs) and runs[end].first < positions.stop:
            run = runs[end]
            settled.append(run.part(positions.start, positions.stop - 1))
            if run.first < positions.start:
                kept.append(run.part(run.first, positions.start - 1))
            if positions.stop <= run.last:
                kept.append(run.part(positions.stop, run.last))
            end += 1
        if settled:
            runs[start:end] = kept
            self._budget.left += end - start - len(kept)
            self.count -= sum([run.size for run in settled])
        return settled

    def settle_up_to(self, position: int) -> list[TransferRun]:
        """Close all transfers up to a position, and return them."""
        return self.settle(range(self._runs[0].first, position + 1)) if self._runs else []

    def reopen(self, runs: list[TransferRun]) -> None:
        """Reopen transfers that were settled."""
        self._runs = sorted((*self._runs, *runs))
        self._budget.left -= len(runs)
        self.count += sum([run.size for run in runs])

    def clear(self) -> list[TransferRun]:
        """Close all open transfers, and return them."""
        return self._remove_first(len(self._runs))

    def forget_older_half(self) -> list[TransferRun]:
        """Close the older half of the runs, never the newest one, and return them."""
        return self._remove_first(len(self._runs) // 2)

    def _remove_first(self, count: int) -> list[TransferRun]:
        removed = self._runs[:count]
        del self._runs[:count]
        self._budget.left += count
        self.count -= sum([run.size for run in removed])
        return removed
