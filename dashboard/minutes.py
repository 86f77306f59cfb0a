"""Traffic of each of the last minutes by name, for comparisons of the present with the past."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from amqproxy.dashboard.latency_counts import LatencyCounts
from amqproxy.dashboard.party import Party

MINUTE_NS = 60_000_000_000

MAX_MINUTES = 190
"""Minutes that are kept: three hours, and the span that is compared with them."""

MAX_NAMES = 1_000
"""Names whose messages are counted in one minute; those of further names are not."""

MAX_SEEN = 20_000
"""Names of which the first and the last minute are kept; beyond it, those unseen for longest are forgotten."""

NameKind: TypeAlias = Literal["client", "exchange", "queue"]


class Name(NamedTuple):
    """A client of a user, or an exchange or a queue of a virtual host: `within` is that user or virtual host."""

    kind: NameKind
    name: str
    within: str


def client_of(party: Party) -> Name:
    """Return the name of a client."""
    return Name("client", party.name, party.user)


class Seen(NamedTuple):
    """Numbers of the first and the last minute in which a name had messages, or a client was connected."""

    first: int
    last: int


class Minute:
    """Counts of one minute: `counts` of messages and errors, `names` of the messages of each name.

    Unless `is_whole`, some traffic was not seen; unless it `counts_all`, there were more than `MAX_NAMES`.
    """

    __slots__ = (
        "ack",
        "confirm",
        "connections",
        "counts",
        "counts_all",
        "is_whole",
        "kinds",
        "names",
        "seconds",
        "transit",
    )

    def __init__(self) -> None:
        self.names: Counter[Name] = Counter()
        self.kinds: Counter[str] = Counter()
        self.counts: dict[str, float] = {}
        self.confirm, self.ack, self.transit = LatencyCounts(), LatencyCounts(), LatencyCounts()
        self.connections: float | None = None
        self.seconds = 0.0
        """Seconds that the samples cover; 0 if they leave out seconds without traffic."""
        self.is_whole = self.counts_all = True

    def absorb(self, other: Minute) -> None:
        """Add the counts of a later minute."""
        self.names.update(other.names)
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
        self.counts_all = self.counts_all and other.counts_all

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
        self.seen: OrderedDict[Name, Seen] = OrderedDict()
        """Names by when they were seen, the most recent last."""
        self.forgotten = -1
        """Last minute in which any of the forgotten names was seen."""
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
        minute = self.at(ts_ns)
        counts = minute.names
        for name in names:
            if name in counts:
                counts[name] += 1
                continue
            self.see(name, ts_ns)
            if len(counts) < MAX_NAMES:
                counts[name] = 1
            else:
                minute.counts_all = False

    def see(self, name: Name, ts_ns: int) -> None:
        """Note that a name has messages at a time, or that a client is connected."""
        place = ts_ns // MINUTE_NS
        before = self.seen.get(name)
        if before is not None and before.last == place:
            return
        self.seen[name] = (
            Seen(place, place) if before is None else Seen(min(before.first, place), max(before.last, place))
        )
        self.seen.move_to_end(name)
        if len(self.seen) > MAX_SEEN:
            _, forgotten = self.seen.popitem(last=False)
            self.forgotten = max(self.forgotten, forgotten.last)

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
