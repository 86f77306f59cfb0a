"""A counter with a bounded number of series, for labels whose values come from outside."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

OTHER = "other"
"""Label value for all values beyond the limit of series."""


class BoundedSeries:
    """Counter by `fixed`, labels with few values, and by `labels`, with at most `most` combinations of values.

    Further combinations are counted with "other" as the value of each of `labels`, and once more in `beyond`.
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
        self._known = {self._others: self._others}

    def count(self, fixed: tuple[str, ...], values: tuple[str, ...], amount: int = 1) -> None:
        """Add to the series of these values."""
        shown = self._known.get(values)
        if shown is None:
            if len(self._known) <= self._most:
                shown = self._known[values] = tuple(map(_printable, values))
            else:
                self._beyond.inc(amount)
                shown = self._others
        self._counter.labels(*fixed, *shown).inc(amount)


def _printable(value: str) -> str:
    """Return a valid label value: invalid UTF-8 is replaced, since one bad label fails a whole scrape."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
