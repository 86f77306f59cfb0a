"""Alignment of two sequences: items that are the same in both, moved, changed, missing or extra.

It compares digests only, in windows, so that sequences of any length need bounded memory; `aligned` with its
arguments exchanged gives the mirrored result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from amqproxy.comparison.difference import DifferenceKind

WINDOW = 1024
"""Initial number of items of each sequence that are compared where the sequences diverge."""

MAX_WINDOW = 32_768
"""Largest number of items of each sequence that are compared until a common one is found."""

MAX_EDITS = 128
"""Missing and extra items in a window, beyond which a fast alignment replaces the exact one."""


class Item(NamedTuple):
    """An item of a sequence: digests of all of it (`digest`), of its kind and names (`alike`), of its kind (`name`).

    `ref` is the caller's; `content` is the digest of its body, 0 if it has none.
    """

    digest: int
    alike: int
    name: int
    ref: int
    content: int = 0


class Aligned(NamedTuple):
    """An item of A, its counterpart in B, or both; `kind` is None if both are the same, at the same place."""

    kind: DifferenceKind | None
    a: Item | None
    b: Item | None


Matches = list[tuple[int, int]]
"""Pairs of places in A and B that hold the same item, ascending in both."""


def aligned(a: Iterable[Item], b: Iterable[Item]) -> Iterator[Aligned]:
    """Yield all items of A and B in the order of A; those that only B has come at their place.

    An item that moved by more than a window is missing at one place, and extra at another.
    """
    left, right = _Ahead(a), _Ahead(b)
    while True:
        yield from _same(left, right)
        if not left.peek(1) and not right.peek(1):
            return
        yield from _window(left, right)


class _Ahead:
    """A sequence whose next items can be peeked at."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._rest = iter(items)
        self._ahead: deque[Item] = deque()

    def peek(self, count: int) -> list[Item]:
        """Return the next items without taking them; fewer at the end."""
        self._ahead.extend(islice(self._rest, max(0, count - len(self._ahead))))
        return list(islice(self._ahead, count))

    def take(self, count: int) -> None:
        """Take items that were peeked at."""
        for _ in range(count):
            self._ahead.popleft()


def _same(left: _Ahead, right: _Ahead) -> Iterator[Aligned]:
    """Take and yield the common prefix."""
    while True:
        one, other = left.peek(WINDOW), right.peek(WINDOW)
        count = _common([each.digest for each in one], [each.digest for each in other])
        for pair in zip(one[:count], other[:count], strict=True):
            yield Aligned(None, *pair)
        left.take(count)
        right.take(count)
        if count < WINDOW:
            return


def _window(left: _Ahead, right: _Ahead) -> Iterator[Aligned]:
    """Take and yield one window of differences, up to its last match, or of `MAX_WINDOW` items without one."""
    size = WINDOW
    while True:
        one, other = left.peek(size), right.peek(size)
        is_open = len(one) == size or len(other) == size
        found = matches([each.digest for each in one], [each.digest for each in other], is_open=is_open)
        if not is_open:
            break
        if found:  # items after the last match may match later ones
            one, other = one[: found[-1][0] + 1], other[: found[-1][1] + 1]
            break
        if size >= MAX_WINDOW:
            break
        size *= 2
    left.take(len(one))
    right.take(len(other))
    yield from _differences(one, other, found)


def _differences(one: list[Item], other: list[Item], found: Matches) -> Iterator[Aligned]:
    gaps = _gaps(found, len(one), len(other))
    partners = _moved(one, other, gaps)
    kinds = dict.fromkeys(partners, DifferenceKind.MOVED)
    taken = set(partners.values())
    for alike in _LIKENESSES:
        for ours, theirs in gaps:
            pairs = _paired(
                ((alike(one[i]), i) for i in ours if i not in partners),
                ((alike(other[j]), j) for j in theirs if j not in taken),
            )
            partners.update(pairs)
            kinds.update(dict.fromkeys(pairs, DifferenceKind.CHANGED))
            taken.update(pairs.values())
    for number, (ours, theirs) in enumerate(gaps):
        for i in ours:
            partner = partners.get(i)
            if partner is None:
                yield Aligned(DifferenceKind.MISSING, one[i], None)
            else:
                yield Aligned(kinds[i], one[i], other[partner])
        for j in theirs:
            if j not in taken:
                yield Aligned(DifferenceKind.EXTRA, None, other[j])
        if number < len(found):
            i, j = found[number]
            yield Aligned(None, one[i], other[j])


_LIKENESSES: tuple[Callable[[Item], object], ...] = (
    lambda item: (item.alike, item.content),
    lambda item: (item.name, item.content) if item.content else None,
    lambda item: item.alike,
    lambda item: item.name,
)
"""Keys by which changed items are paired, the closest likeness first; items with the key None are not paired."""


def _gaps(found: Matches, end: int, other_end: int) -> list[tuple[range, range]]:
    """Return the ranges before, between and after the matches."""
    gaps = []
    i = j = 0
    for a, b in (*found, (end, other_end)):
        gaps.append((range(i, a), range(j, b)))
        i, j = a + 1, b + 1
    return gaps


def _moved(one: list[Item], other: list[Item], gaps: list[tuple[range, range]]) -> dict[int, int]:
    """Pair the items that both have at different places."""
    return _paired(
        ((one[i].digest, i) for ours, _ in gaps for i in ours),
        ((other[j].digest, j) for _, theirs in gaps for j in theirs),
    )


def _paired(ours: Iterable[tuple[object, int]], theirs: Iterable[tuple[object, int]]) -> dict[int, int]:
    """Pair places by key: the nth of one side with the nth of the other."""
    waiting: dict[object, deque[int]] = {}
    for key, j in theirs:
        if key is not None:
            waiting.setdefault(key, deque()).append(j)
    pairs = {}
    for key, i in ours:
        places = waiting.get(key)
        if places:
            pairs[i] = places.popleft()
    return pairs


# --- common subsequences


def matches(one: Sequence[int], other: Sequence[int], *, is_open: bool = False) -> Matches:
    """Return a long common subsequence; the longest one if both sequences differ little.

    If they are open, more items follow: those that only one has at its end may come next in the other.
    """
    if list(one) <= list(other):
        return _matches(one, other, is_open=is_open)
    return [(i, j) for j, i in _matches(other, one, is_open=is_open)]


def _matches(one: Sequence[int], other: Sequence[int], *, is_open: bool) -> Matches:
    found: Matches = []
    to_do = [(0, len(one), 0, len(other))]
    while to_do:
        i, i_end, j, j_end = to_do.pop()
        start = _common(one[i:i_end], other[j:j_end])
        found += zip(range(i, i + start), range(j, j + start), strict=True)
        i, j = i + start, j + start
        is_last = is_open and i_end == len(one) and j_end == len(other)
        stop = 0 if is_last else _common(one[i:i_end][::-1], other[j:j_end][::-1])
        found += zip(range(i_end - stop, i_end), range(j_end - stop, j_end), strict=True)
        i_end, j_end = i_end - stop, j_end - stop
        if i == i_end or j == j_end:
            continue
        exact = _with_few_edits(one[i:i_end], other[j:j_end], is_open=is_last)
        if exact is not None:
            found += [(i + x, j + y) for x, y in exact]
            continue
        anchors = _anchors(one[i:i_end], other[j:j_end])
        found += [(i + x, j + y) for x, y in anchors]
        if anchors:
            gaps = _gaps(anchors, i_end - i, j_end - j)
            to_do += [(i + x.start, i + x.stop, j + y.start, j + y.stop) for x, y in gaps if x and y]
    return sorted(found)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    if one == other:
        return len(one)
    count = 0
    for x, y in zip(one, other, strict=False):
        if x != y:
            break
        count += 1
    return count


def _with_few_edits(one: Sequence[int], other: Sequence[int], *, is_open: bool) -> Matches | None:
    """Return the longest common subsequence, if at most `MAX_EDITS` items are not in it, else None.

    If both are open, only until one of them ends.

    E. Myers, "An O(ND) difference algorithm and its variations", 1986.
    """
    n, m = len(one), len(other)
    if abs(n - m) > MAX_EDITS and not is_open:
        return None
    furthest = {1: 0}
    history = []
    for edits in range(MAX_EDITS + 1):
        history.append(furthest.copy())
        for k in range(-edits, edits + 1, 2):
            if k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1]):
                x = furthest[k + 1]
            else:
                x = furthest[k - 1] + 1
            y = x - k
            while x < n and y < m and one[x] == other[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if (x >= n or y >= m) if is_open else (x >= n and y >= m):
                return _walked_back(x, y, history)
    return None


def _walked_back(x: int, y: int, history: list[dict[int, int]]) -> Matches:
    found: Matches = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, k = history[edits], x - y
        is_insert = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
        previous = k + 1 if is_insert else k - 1
        start = furthest[previous] if edits else 0
        stop = start + (not is_insert) if edits else 0
        while x > stop:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = start, start - previous
    return found[::-1]


def _anchors(one: Sequence[int], other: Sequence[int]) -> Matches:
    """Return ascending matches of items that are unique in both, else of the nth equal item of one with the nth."""
    return _ascending(_nth_with_nth(one, other, lambda count: count == 1) or _nth_with_nth(one, other, lambda _: True))


def _nth_with_nth(one: Sequence[int], other: Sequence[int], counts: Callable[[int], bool]) -> Matches:
    ours, theirs = _places(one), _places(other)
    return sorted(
        pair
        for digest, places in ours.items()
        if counts(len(places)) and digest in theirs and counts(len(theirs[digest]))
        for pair in zip(places, theirs[digest], strict=False)
    )


def _places(digests: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for place, digest in enumerate(digests):
        found.setdefault(digest, []).append(place)
    return found


def _ascending(pairs: Matches) -> Matches:
    """Return the longest subsequence of pairs ordered by their first place that ascends in the second, too.

    The method is patience sorting.
    """
    lowest: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(lowest, j)
        before.append(ends[length - 1] if length else -1)
        if length == len(lowest):
            lowest.append(j)
            ends.append(number)
        else:
            lowest[length] = j
            ends[length] = number
    found: Matches = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
