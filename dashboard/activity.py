"""Traffic volume and latencies per time interval, counted from frames and traced events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import BY_INDEX as AMQP010_BY_INDEX
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.peer import Peer
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.metrics import LATENCY_BUCKETS
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    Settlement,
    TraceEvent,
)

MAX_INTERVALS = 3600
"""Maximum number of intervals; beyond it the oldest are dropped (live), or all intervals double in length."""

SECOND = 1_000_000_000

_SETTLED = {
    Settlement.CONFIRMED: "confirmed",
    Settlement.NACKED: "nacked",
    Settlement.ACKED: "acked",
    Settlement.REJECTED: "rejected",
}


_COUNTED: dict[type[TraceEvent], str] = {
    MessagePublished: "published",
    MessageDelivered: "delivered",
    MessageReturned: "returned",
    ConnectionOpened: "opened",
    ConnectionClosed: "closed",
}
"""Names of the counts of events that are counted one by one."""

_CLOSES = frozenset((ChannelClosed, ConnectionClosed))
_BYTES_OF: dict[str, str] = {sender: f"bytes.{sender}" for sender in Peer}


class Interval(msgspec.Struct):
    """Counters of one interval; latencies are counted by `LATENCY_BUCKETS`, with one bucket beyond the last bound."""

    methods: Counter[str] = msgspec.field(default_factory=Counter)
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    confirm: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    ack: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))

    def absorb(self, other: Interval) -> None:
        """Add the counts of another interval."""
        self.methods.update(other.methods)
        self.counts.update(other.counts)
        for mine, theirs in ((self.confirm, other.confirm), (self.ack, other.ack)):
            for place, count in enumerate(theirs):
                mine[place] += count


class Activity:
    """Frame, message and latency counters by the second in which the traffic passed.

    Beyond `MAX_INTERVALS`, a live source drops its oldest interval; a capture doubles the length of all intervals.
    """

    def __init__(self, *, is_live: bool = False) -> None:
        self._is_live = is_live
        self.seconds = 1
        """Length of an interval in seconds."""
        self.intervals: dict[int, Interval] = {}
        self._current = Interval()
        self._place = -1

    def count_frames(self, ts_ns: int, sender: str, frames: Sequence[Frame], size: int) -> None:
        """Count frames of one peer, of `size` bytes in all."""
        methods = self._count(ts_ns, sender, len(frames), size)
        for frame in frames:
            if frame.kind == METHOD:
                methods[BY_INDEX[frame.index].name] += 1

    def count_amqp010_frames(self, ts_ns: int, sender: str, frames: Sequence[Amqp010Frame], size: int) -> None:
        """Count 0-10 frames of one peer, of `size` bytes in all."""
        methods = self._count(ts_ns, sender, len(frames), size)
        for frame in frames:
            if frame.index >= 0:
                methods[AMQP010_BY_INDEX[frame.index].name] += 1

    def _count(self, ts_ns: int, sender: str, frames: int, size: int) -> Counter[str]:
        """Count the frames of one peer, and return the counter of methods at that time."""
        interval = self._at(ts_ns)
        counts = interval.counts
        counts[_BYTES_OF[sender]] += size
        counts["frames"] += frames
        return interval.methods

    def count_error(self, ts_ns: int) -> None:
        """Count one sequence of bytes that could not be decoded."""
        self._at(ts_ns).counts["errors"] += 1

    def count_events(self, events: Iterable[TraceEvent]) -> None:
        """Count trace events in the intervals in which they occurred."""
        for event in events:
            kind = type(event)
            if (name := _COUNTED.get(kind)) is not None:
                self._at(event.ts_ns).counts[name] += 1
            elif kind is PublishesSettled or kind is DeliveriesSettled:
                self._settle(event)  # type: ignore[arg-type]
            if kind in _CLOSES and event.code not in NORMAL_CODES:  # type: ignore[union-attr]
                self._at(event.ts_ns).counts["errors"] += 1

    def _settle(self, event: PublishesSettled | DeliveriesSettled) -> None:
        name = _SETTLED.get(event.outcome)
        if name is None:
            return
        interval = self._at(event.ts_ns)
        counts = interval.counts
        buckets = interval.confirm if isinstance(event, PublishesSettled) else interval.ack
        for span in event.spans:
            counts[name] += span.count
            buckets[bucket_of((event.ts_ns - span.ts_ns) / 1e9)] += span.count

    def samples(self, most: int = MAX_INTERVALS) -> list[dict[str, Any]]:
        """Return the last `most` intervals as samples: see `sample_of`."""
        return [
            sample_of(place * self.seconds, self.seconds, self.intervals[place])
            for place in sorted(self.intervals)[-most:]
        ]

    def _at(self, ts_ns: int) -> Interval:
        place = ts_ns // (SECOND * self.seconds)
        if place == self._place:
            return self._current
        found = self.intervals.get(place)
        if found is None:
            found = self.intervals[place] = Interval()
            if len(self.intervals) > MAX_INTERVALS:
                if self._is_live:
                    del self.intervals[min(self.intervals)]
                else:
                    self._lengthen()
                    return self._at(ts_ns)
        self._place, self._current = place, found
        return found

    def _lengthen(self) -> None:
        """Double the length of all intervals, merging them in pairs."""
        self.seconds *= 2
        before, self.intervals = self.intervals, {}
        for place in sorted(before):
            self.intervals.setdefault(place // 2, Interval()).absorb(before[place])
        self._place = -1


def bucket_of(seconds: float) -> int:
    """Return the index of a latency's bucket."""
    for place, bound in enumerate(LATENCY_BUCKETS):
        if seconds <= bound:
            return place
    return len(LATENCY_BUCKETS)


def sample_of(start: float, seconds: float, interval: Interval) -> dict[str, Any]:
    """Return an interval as a sample: rates per second; `confirm` and `ack` are counts per latency bucket."""
    counts = interval.counts
    return {
        "ts": start,
        "seconds": seconds,
        "frames": counts["frames"] / seconds,
        "methods": {name: count / seconds for name, count in interval.methods.items()},
        "bytes": {sender: counts[f"bytes.{sender}"] / seconds for sender in ("client", "server")},
        "messages": {
            name: counts[name] / seconds
            for name in ("published", "confirmed", "nacked", "returned", "delivered", "acked", "rejected")
        },
        "opened": counts["opened"] / seconds,
        "closed": counts["closed"] / seconds,
        "errors": counts["errors"] / seconds,
        "confirm": interval.confirm,
        "ack": interval.ack,
    }
