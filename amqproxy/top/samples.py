"""Rates and latencies from two samples of a proxy's counters."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

Entry = Mapping[str, Any]


class Sample:
    """The response to `stats`: `process` describes the process, `time` is when it was made, in seconds since 1970."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.process: Mapping[str, Any] = response["stats"]
        self.time: float = self.process["time"]
        self._values: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for each in response["metrics"]:
            if each["value"] is not None:
                self._values.setdefault(each["name"], []).append((each["labels"], each["value"]))

    def total(self, name: str, **labels: str) -> float | None:
        """Return the sum of all samples with this name and these labels; `None` if there is no such metric."""
        found = self._values.get(name)
        if found is None:
            return None
        return sum(value for has, value in found if labels.items() <= has.items())

    def totals(self, name: str, by: str, **labels: str) -> dict[str, float]:
        """Return `total` for each value of the label `by`; empty if there is no such metric."""
        found: dict[str, float] = {}
        for has, value in self._values.get(name, ()):
            if by in has and labels.items() <= has.items():
                found[has[by]] = found.get(has[by], 0.0) + value
        return found

    def buckets(self, name: str) -> dict[float, float]:
        """Return the cumulative buckets of a histogram: counts by upper bound."""
        counts: dict[float, float] = {}
        for labels, value in self._values.get(f"{name}_bucket", ()):
            bound = float(labels["le"])
            counts[bound] = counts.get(bound, 0.0) + value
        return counts


class Window:
    """The interval between two samples; without an earlier sample of the same process, all rates are unknown."""

    def __init__(self, before: Sample | None, after: Sample) -> None:
        if before is not None and before.process["started_at"] != after.process["started_at"]:
            before = None  # restarted meanwhile
        self.before = before
        self.after = after

    def rate(self, name: str, **labels: str) -> float | None:
        """Return the growth of a counter per second."""
        if self.before is None:
            return None
        then, now = self.before.total(name, **labels), self.after.total(name, **labels)
        seconds = self.after.time - self.before.time
        if then is None or now is None or seconds <= 0:
            return None
        return max(0.0, now - then) / seconds

    def rates(self, name: str, by: str, **labels: str) -> dict[str, float]:
        """Return `rate` for each value of the label `by` that grew."""
        if self.before is None or (seconds := self.after.time - self.before.time) <= 0:
            return {}
        then, now = self.before.totals(name, by, **labels), self.after.totals(name, by, **labels)
        return {each: (now[each] - then.get(each, 0.0)) / seconds for each in now if now[each] > then.get(each, 0.0)}

    def quantile(self, name: str, share: float) -> float | None:
        """Return the quantile of a histogram's new observations, estimated as by Prometheus.

        `None` if there are none.
        """
        now = self.after.buckets(name)
        then = {} if self.before is None else self.before.buckets(name)
        counts = [(bound, count - then.get(bound, 0.0)) for bound, count in sorted(now.items())]
        if not counts or counts[-1][1] <= 0:
            return None
        rank = share * counts[-1][1]
        lower = below = 0.0
        for bound, count in counts:
            if count >= rank:
                if math.isinf(bound):
                    return lower
                return lower + (bound - lower) * (rank - below) / (count - below) if count > below else bound
            lower, below = bound, count
        return lower


def with_rates(
    before: Iterable[Entry],
    after: Iterable[Entry],
    seconds: float,
    *,
    key: Callable[[Entry], Hashable],
    counted: str,
) -> list[Entry]:
    """Return entries with `rates`: the growth per second of each count in the field `counted`, since the earlier
    list.
    """
    known = {key(entry): entry for entry in before}
    found: list[Entry] = []
    for entry in after:
        then = known.get(key(entry))
        rates: dict[str, float | None] = {}
        for name, count in entry[counted].items():
            grown = None if then is None or seconds <= 0 else count - then[counted][name]
            rates[name] = None if grown is None or grown < 0 else grown / seconds
        found.append({**entry, "rates": rates})
    return found
