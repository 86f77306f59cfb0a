"""Unsettled tags, as ranges with the time at which each was used."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from operator import attrgetter

import msgspec

from amqproxy.taps.trace.budget import Budget

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

    def among(self, numbers: Collection[int]) -> Iterable[int]:
        """Return the tags of this range that may be among `numbers`; costs no more than the smaller of the two."""
        if self.count <= len(numbers):
            return range(self.first, self.last + 1)
        return [number for number in numbers if self.first <= number <= self.last]


_last = attrgetter("last")


class OpenTags:
    """Open tags of one channel, in order. Section 1.8.3.12 and 1.1.2.

    `last` is the newest tag, 0 before the first; `count` is the number of open tags. Each range is taken from the
    budget even if nothing is left of it: the caller that adds and settles tags must keep the budget.
    """

    __slots__ = ("_budget", "_spans", "count", "last")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spans: list[Span] = []
        self.last = 0
        self.count = 0

    def __contains__(self, tag: int) -> bool:
        place = bisect_left(self._spans, tag, key=_last)
        return place < len(self._spans) and self._spans[place].first <= tag

    @property
    def first(self) -> int | None:
        """The oldest open tag."""
        return self._spans[0].first if self._spans else None

    @property
    def oldest(self) -> Span | None:
        """The range of the oldest open tag."""
        return self._spans[0] if self._spans else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Ranges of all open tags, the oldest first."""
        return tuple(self._spans)

    def restore(self, spans: tuple[Span, ...], last: int) -> bool:
        """Open the newest of `spans`, as the budget allows; return whether these are all. `last` is the newest tag."""
        fitting = spans[max(0, len(spans) - max(0, self._budget.left)) :]
        self._budget.left -= len(fitting)
        self._spans = list(fitting)
        self.count = sum([span.count for span in fitting])
        self.last = max(last, fitting[-1].last if fitting else 0)
        return len(fitting) == len(spans)

    def add(self, tag: int, ts_ns: int, consumer_tag: str | None = None) -> None:
        """Open a tag, which must be above all earlier ones."""
        assert tag > self.last
        self.last = tag
        self.count += 1
        spans = self._spans
        if spans:
            newest = spans[-1]
            if newest.last == tag - 1 and newest.ts_ns == ts_ns and newest.consumer_tag == consumer_tag:
                spans[-1] = Span(newest.first, tag, ts_ns, consumer_tag)
                return
        spans.append(Span(tag, tag, ts_ns, consumer_tag))
        self._budget.left -= 1

    def settle(self, tag: int, *, multiple: bool = False) -> tuple[Span, ...] | None:
        """Close a tag, or with `multiple` all up to it (0: all open tags); `None` if the tag is not open."""
        spans = self._spans
        if multiple and tag == 0:
            return self.clear()
        place = bisect_left(spans, tag, key=_last)
        if place == len(spans) or spans[place].first > tag:
            return None
        span = spans[place]
        kept = []
        settled: tuple[Span, ...]
        if multiple:
            settled = (*spans[:place], _part(span, span.first, tag))
            start = 0
        else:
            settled = (_part(span, tag, tag),)
            start = place
            if span.first < tag:
                kept.append(_part(span, span.first, tag - 1))
        if tag < span.last:
            kept.append(_part(span, tag + 1, span.last))
        spans[start : place + 1] = kept
        self._budget.left += place + 1 - start - len(kept)
        self.count -= sum(each.count for each in settled)
        return settled

    def settle_up_to(self, tag: int) -> tuple[Span, ...]:
        """Close all tags up to `tag`, which need not be open itself."""
        place = bisect_left(self._spans, tag, key=_last)
        if place < len(self._spans) and self._spans[place].first <= tag:
            return self.settle(tag, multiple=True) or ()
        return self._remove_first(place)

    def reopen(self, settled: tuple[Span, ...]) -> None:
        """Reopen tags that were settled in a transaction which was rolled back."""
        self._budget.left -= len(settled)
        self._spans = sorted((*self._spans, *settled), key=_last)
        self.count += sum(each.count for each in settled)

    def clear(self) -> tuple[Span, ...]:
        """Close all open tags, and return their ranges."""
        return self._remove_first(len(self._spans))

    def forget_older_half(self) -> tuple[Span, ...]:
        """Close the older half of the ranges, never the newest one, and return them."""
        return self._remove_first(len(self._spans) // 2)

    def _remove_first(self, count: int) -> tuple[Span, ...]:
        removed = tuple(self._spans[:count])
        del self._spans[:count]
        self._budget.left += count
        self.count -= sum(each.count for each in removed)
        return removed


def _part(span: Span, first: int, last: int) -> Span:
    return span if (first, last) == (span.first, span.last) else Span(first, last, span.ts_ns, span.consumer_tag)
