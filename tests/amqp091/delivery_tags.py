"""Numbers that count up from 1 and are settled singly or up to one: deliveries, and confirms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

MAX_OUTSTANDING = 1_000_000
"""How many tags one channel may have open."""


class DeliveryTags:
    """The tags of one channel that are still open, in order. Section 1.8.3.12 and 1.1.2.

    `last` is the newest tag, 0 before the first. What a tag stands for (a consumer's tag, say) is
    kept with it.
    """

    # An ordinary dict would pass over all that were settled, each time, to find its first entry.

    __slots__ = ("_open", "last")

    def __init__(self) -> None:
        self.last = 0
        self._open: OrderedDict[int, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, tag: int) -> bool:
        return tag in self._open

    def issue(self, tag: int, what: str = "") -> None:
        """Note a new tag, which must be above all before it; `OverflowError` when too many are open."""
        if tag <= self.last:
            raise ValueError(f"delivery tag {tag} after {self.last}")
        if len(self._open) >= MAX_OUTSTANDING:
            raise OverflowError(f"more than {MAX_OUTSTANDING} delivery tags are open")
        self.last = tag
        self._open[tag] = what

    def settle(self, tag: int, *, multiple: bool = False) -> list[tuple[int, str]]:
        """Close a tag, or with `multiple` all up to it (0: all there are), and return them in order.

        `KeyError` when the tag is not open; with `multiple`, 0 is always right.
        """
        if not multiple:
            return [(tag, self._open.pop(tag))]
        if tag == 0:
            tag = self.last
        elif tag not in self._open:
            raise KeyError(tag)
        settled = []
        while self._open and next(iter(self._open)) <= tag:
            settled.append(self._open.popitem(last=False))
        return settled

    def restore(self, settled: Iterable[tuple[int, str]]) -> None:
        """Open tags again that a rolled-back transaction had settled."""
        self._open = OrderedDict(sorted((*self._open.items(), *settled)))

    def clear(self) -> None:
        """Settle all there are."""
        self._open.clear()
