"""A counter with labels whose values come from outside, and that has a bounded number of series."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

OTHER = "other"
"""The value of each label of what there is no series for."""


class BoundedSeries:
    """Counts by `fixed`, labels with few values, and by `labels`, of which it makes at most `most` combinations.

    What is beyond that is counted with "other" as the value of each of `labels`, and once more in `beyond`.
    """

    def __init__(
        self,
        name: str,
        text: str,
        fixed: Sequence[str],
        labels: Sequence[str],
        *,
        most: int,
        beyond: Counter,
        registry: CollectorRegistry,
    ) -> None:
        self._counter = Counter(name, text, [*fixed, *labels], registry=registry)
        self._most = most
        self._beyond = beyond
        self._others = (OTHER,) * len(labels)
        self._known: set[tuple[str, ...]] = {self._others}

    def count(self, fixed: tuple[str, ...], values: tuple[str, ...], amount: int = 1) -> None:
        """Add to the series of these values."""
        if values not in self._known:
            if len(self._known) <= self._most:
                self._known.add(values)
            else:
                self._beyond.inc(amount)
                values = self._others
        self._counter.labels(*fixed, *values).inc(amount)
