"""Clock offsets of hosts, from the smallest transit times between them, hour by hour.

A delivery cannot be before its publish. Where clocks contradict that, they are corrected as little as possible, and
exactly if there were fast messages in both directions: then one needed as long as the other. Clocks that no message
contradicts are taken to be right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

SYMMETRIC_NS = 20_000_000
"""Maximum sum of the smallest transit times of both directions that count as equal."""

MAX_CHAINS = 256
"""Maximum number of chains that are compared in an hour: those with the most messages between them."""

_FAR = 1 << 61


class Evidence(NamedTuple):
    """Linked messages of an hour that were published in one chain, and delivered in another."""

    hour: int
    """In hours since 1970."""
    published: str
    delivered: str
    least_ns: int
    """The smallest transit time by their clocks."""
    pairs: int


class Clock(NamedTuple):
    """The clock of a chain in an hour: how far it was ahead."""

    hour: int
    chain: str
    offset_ns: int
    pairs: int
    """Number of messages to and from other chains."""


def clocks(evidence: Iterable[Evidence]) -> list[Clock]:
    """Return the clock of each chain in each hour with evidence."""
    hours: defaultdict[int, list[Evidence]] = defaultdict(list)
    for each in sorted(evidence):
        hours[each.hour].append(each)
    found: list[Clock] = []
    for hour, of_hour in hours.items():
        pairs: Counter[str] = Counter()
        for each in of_hour:
            pairs[each.published] += each.pairs
            pairs[each.delivered] += each.pairs
        offsets = _offsets(of_hour, pairs)
        found += [Clock(hour, chain, offsets.get(chain, 0), pairs[chain]) for chain in sorted(pairs)]
    return found


def _offsets(evidence: Sequence[Evidence], pairs: Counter[str]) -> dict[str, int]:
    """Return the offsets that some message makes necessary.

    The offsets x satisfy x[delivered] - x[published] <= least_ns for each evidence. After the bounds of all paths are
    known, whatever is chosen within them for one clock leaves a choice for the next.
    """
    denied: Counter[str] = Counter()
    for each in evidence:
        if each.least_ns < 0:
            denied.update((each.published, each.delivered))
    if not denied:
        return {}
    # The clock that contradicts the most others is the last to be chosen, and so the one to be corrected.
    busiest = sorted(pairs, key=lambda chain: (-pairs[chain], chain))[:MAX_CHAINS]
    order = sorted(busiest, key=lambda chain: denied[chain])
    place = {chain: number for number, chain in enumerate(order)}
    most = np.full((len(order), len(order)), _FAR, np.int64)
    np.fill_diagonal(most, 0)
    for each in evidence:
        if each.published in place and each.delivered in place:
            way = place[each.published], place[each.delivered]
            most[way] = min(most[way], each.least_ns)
    for between in range(len(order)):
        paths = most[:, between, None] + most[None, between]
        np.minimum(most, np.where(paths > _FAR // 2, _FAR, paths), out=most)
    chosen: list[int] = []
    for number in range(len(order)):
        upper = min((x + int(most[k, number]) for k, x in enumerate(chosen)), default=_FAR)
        lower = max((x - int(most[number, k]) for k, x in enumerate(chosen)), default=-_FAR)
        chosen.append(_least_shift(lower, upper))
    return dict(zip(order, chosen, strict=True))


def _least_shift(lower: int, upper: int) -> int:
    if lower <= 0 <= upper:
        return 0
    if abs(upper - lower) <= SYMMETRIC_NS or lower > upper:  # the latter if a clock was set within the hour
        return (lower + upper) // 2
    return lower if lower > 0 else upper
