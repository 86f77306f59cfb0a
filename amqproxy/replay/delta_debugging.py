"""Delta debugging: the smallest part of a sequence that still has a property (Zeller and Hildebrandt's ddmin)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Unit = TypeVar("Unit")


class OutOfTime(Exception):
    """Raised when the time for further tests has run out."""


async def least_part(units: Sequence[Unit], has_property: Callable[[Sequence[Unit]], Awaitable[bool]]) -> list[Unit]:
    """Return a part of `units`, in their order, that loses the property without any one of them.

    All units together must have it. If `has_property` raises `OutOfTime`, return the smallest part found by then.
    """
    left = list(units)
    try:
        if len(left) > 1 and await has_property([]):
            return []
        pieces = 2
        while len(left) > 1:
            size = len(left) / pieces
            bounds = [round(size * number) for number in range(pieces + 1)]
            parts = [left[begin:end] for begin, end in pairwise(bounds)]
            found = await _first(parts, has_property)
            if found is not None:
                left, pieces = found, 2
                continue
            rests = [left[:begin] + left[end:] for begin, end in pairwise(bounds)]
            found = await _first(rests, has_property) if pieces > 2 else None
            if found is not None:
                left, pieces = found, max(pieces - 1, 2)
                continue
            if pieces == len(left):
                break
            pieces = min(pieces * 2, len(left))
        if len(left) == 1 and await has_property([]):
            return []
    except OutOfTime:
        pass
    return left


async def _first(
    candidates: Sequence[list[Unit]], has_property: Callable[[Sequence[Unit]], Awaitable[bool]]
) -> list[Unit] | None:
    for each in candidates:
        if each and await has_property(each):
            return each
    return None
