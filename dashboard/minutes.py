"""Traffic of each of the last minutes by name, for comparisons of the present with the past."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from dashboard.latency_counts import LatencyCounts
from dashboard.party import Party

MINUTE_NS = 60_000_000_000

MAX_MINUTES = 190
"""Minutes that are kept: three hours, and the span that is compared with them."""

MAX_NAMES = 1_000
"""Names that are counted in one minute; further ones are not."""

NameKind: TypeAlias = Literal["client", "exchange", "queue"]


class Name(NamedTuple):
    """A client of a user, or an exchange or a queue of a virtual host: `within` is that user or virtual host."""

    kind: NameKind
    name: str
    within: str


def client_of(party: Party) -> Name:
    """Return the name of a client."""
    return Name("client", party.name, party.user)


class Minute:
    """Counts of one minute: `counts` of messages and errors, `clients` that were connected.

    Unless `is_whole`, some traffic was not seen.
    """

    __slots__ = (
        "ack",
        "clients",
        "confirm",
        "connections",
        "counts",
        "is_whole",
        "kinds",
        "names",
        "seconds",
        "transit",
    )

    def __init__(self) -> None:
        self.names: Counter[Name] = Counter()
        self.clients: set[Name] = set()
        self.kinds: Counter[str] = Counter()
        self.counts: dict[str, float] = {}
        self.confirm, self.ack, self.transit = LatencyCounts(), LatencyCounts(), LatencyCounts()
        self.connections: float | None = None
        self.seconds = 0.0
        """Seconds that the samples cover; 0 if they leave out seconds without traffic."""
        self.is_whole = True

    def absorb(self, other: Minute) -> None:
        """Add the counts of a later minute."""
        self.names.update(other.names)
        self.clients |= other.clients
        self.kinds.update(other.kinds)
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count
        for mine, theirs in (
            (self.confirm, other.confirm),
            (self.ack, other.ack),
            (self.transit, other.transit),
        ):
            mine.absorb(theirs)
        self.connections = self.connections if other.connections is None else other.connections
        self.seconds += other.seconds
        self.is_whole = self.is_whole and other.is_whole

    def take_sample(self, sample: Mapping[str, Any]) -> None:
        """Add the rates of a sample, which covers some seconds."""
        seconds = float(sample["seconds"])
        self.seconds += seconds
        for name, rate in {**sample["messages"], "errors": sample.get("errors")}.items():
            self.counts[name] = self.counts.get(name, 0.0) + (rate or 0.0) * seconds
        if sample.get("connections") is not None:
            self.connections = sample["connections"]


class Minutes:
    """The last `MAX_MINUTES` in which something passed, by number since 1970."""

    def __init__(self) -> None:
        self._minutes: OrderedDict[int, Minute] = OrderedDict()
        self._place, self._current = -1, Minute()
        self.first_kinds: dict[str, int] = {}
        """When each kind of finding was first made, in nanoseconds since 1970."""

    @property
    def first(self) -> int | None:
        """Number of the oldest minute that is kept."""
        return min(self._minutes, default=None)

    def at(self, ts_ns: int) -> Minute:
        """Return the minute of a time, to be counted in; of one that is no longer kept, a minute that nobody reads."""
        place = ts_ns // MINUTE_NS
        if place == self._place:
            return self._current
        found = self._minutes.get(place)
        if found is None:
            found = Minute()
            if len(self._minutes) >= MAX_MINUTES:
                oldest = min(self._minutes)
                if place < oldest:
                    return found
                del self._minutes[oldest]
            self._minutes[place] = found
        self._place, self._current = place, found
        return found

    def count(self, names: Iterable[Name], ts_ns: int) -> None:
        """Count one message of these names."""
        counts = self.at(ts_ns).names
        for name in names:
            if name in counts or len(counts) < MAX_NAMES:
                counts[name] += 1

    def find(self, kind: str, ts_ns: int) -> None:
        """Count one finding."""
        self.at(ts_ns).kinds[kind] += 1
        self.first_kinds.setdefault(kind, ts_ns)

    def between(self, first: int, end: int) -> Iterator[tuple[int, Minute]]:
        """Yield the minutes from `first` until before `end`, in order."""
        for place in sorted(self._minutes):
            if first <= place < end:
                yield place, self._minutes[place]

    def total(self, first: int, end: int) -> Minute:
        """Return the sum of these minutes."""
        found = Minute()
        for _, minute in self.between(first, end):
            found.absorb(minute)
        return found
