"""Tags that are not settled yet, as ranges with the time at which each was used."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

import msgspec

MAX_SPANS = 65_536
"""Ranges of open tags of one connection, all its channels together; beyond it, a channel forgets the older half."""


class Span(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The tags from `first` to `last`, all used at `ts_ns`: publishes, or deliveries to `consumer_tag`.

    `consumer_tag` is None for publishes, and for messages that basic.get got.
    """

    first: int
    last: int
    ts_ns: int
    consumer_tag: str | None = None

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class SpanBudget:
    """How many more spans the channels of one connection may have."""

    __slots__ = ("left",)

    def __init__(self, most: int = MAX_SPANS) -> None:
        self.left = most


_last = attrgetter("last")


class OpenTags:
    """The tags of one channel that are still open, in order. Section 1.8.3.12 and 1.1.2.

    `last` is the newest tag, 0 before the first; `count` is how many are open.
    """

    __slots__ = ("_budget", "_spans", "count", "last")

    def __init__(self, budget: SpanBudget) -> None:
        self._budget = budget
        self._spans: list[Span] = []
        self.last = 0
        self.count = 0

    def __contains__(self, tag: int) -> bool:
        place = bisect_left(self._spans, tag, key=_last)
        return place < len(self._spans) and self._spans[place].first <= tag

    def add(self, tag: int, ts_ns: int, consumer_tag: str | None = None) -> tuple[Span, ...]:
        """Open a tag that is above all before it. Returns what had to be forgotten to make room."""
        assert tag > self.last
        self.last = tag
        self.count += 1
        spans = self._spans
        if spans:
            newest = spans[-1]
            if newest.last == tag - 1 and newest.ts_ns == ts_ns and newest.consumer_tag == consumer_tag:
                spans[-1] = Span(newest.first, tag, ts_ns, consumer_tag)
                return ()
        forgotten = self._make_room()
        spans.append(Span(tag, tag, ts_ns, consumer_tag))
        self._budget.left -= 1
        return forgotten

    def settle(self, tag: int, *, multiple: bool = False) -> tuple[Span, ...] | None:
        """Close a tag, or with `multiple` all up to it (0: all there are); None when the tag is not open."""
        spans = self._spans
        if multiple and tag == 0:
            return self.clear()
        place = bisect_left(spans, tag, key=_last)
        if place == len(spans) or spans[place].first > tag:
            return None
        span = spans[place]
        kept = []
        if multiple:
            settled = (*spans[:place], Span(span.first, tag, span.ts_ns, span.consumer_tag))
            start = 0
        else:
            settled = (Span(tag, tag, span.ts_ns, span.consumer_tag),)
            start = place
            if span.first < tag:
                kept.append(Span(span.first, tag - 1, span.ts_ns, span.consumer_tag))
        if tag < span.last:
            kept.append(Span(tag + 1, span.last, span.ts_ns, span.consumer_tag))
        spans[start : place + 1] = kept
        self._budget.left += place + 1 - start - len(kept)
        self.count -= sum(each.count for each in settled)
        return settled

    def reopen(self, settled: tuple[Span, ...]) -> None:
        """Open tags again that a transaction had settled when it was rolled back."""
        self._budget.left -= len(settled)
        self._spans = sorted((*self._spans, *settled), key=_last)
        self.count += sum(each.count for each in settled)

    def clear(self) -> tuple[Span, ...]:
        """Close all that are open, and return them."""
        spans, self._spans = tuple(self._spans), []
        self._budget.left += len(spans)
        self.count = 0
        return spans

    def _make_room(self) -> tuple[Span, ...]:
        if self._budget.left > 0 or not self._spans:
            return ()
        half = (len(self._spans) + 1) // 2
        forgotten = tuple(self._spans[:half])
        del self._spans[:half]
        self._budget.left += half
        self.count -= sum(each.count for each in forgotten)
        return forgotten
