"""One request's view of counts and rates, in RabbitMQ's keys and groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from amqproxy.management.statistics.history import History
from amqproxy.management.statistics.ranges import Range, Ranges, SamplesShown
from amqproxy.management.statistics.series import Series

Entry = dict[str, Any]

Places = tuple[int, ...]
"""Places in the numbers of an object that are added up."""

PUBLISH: Mapping[str, Places] = {"publish": (0,)}

PUBLISHES: Mapping[str, Places] = {
    **PUBLISH,
    "confirm": (1,),
    "return_unroutable": (2,),
    "drop_unroutable": (3,),
}

DELIVERIES: Mapping[str, Places] = {
    "get": (7,),
    "get_no_ack": (8,),
    "deliver": (5,),
    "deliver_no_ack": (6,),
    "redeliver": (10,),
    "ack": (11,),
    "deliver_get": (5, 6, 7, 8),
    "get_empty": (9,),
}
"""Groups of keys, with places in `amqproxy.broker.message_counts.COUNTS`; RabbitMQ shows a group all or not at all."""

LENGTHS: Mapping[str, Places] = {"messages": (0, 1), "messages_ready": (0,), "messages_unacknowledged": (1,)}
"""Places in the numbers of queues and virtual hosts, whose counts begin at `AFTER_LENGTHS`."""

AFTER_LENGTHS = 2

OCTETS: Mapping[str, Places] = {"recv_oct": (0,), "send_oct": (1,)}

CHURN = (
    *("channel_closed", "channel_created", "connection_closed", "connection_created"),
    *("queue_created", "queue_declared", "queue_deleted"),
)
"""The numbers of the whole broker, in the order in which it counts them."""

DISK: Mapping[str, Places] = {"disk_reads": (7,), "disk_writes": (8,)}
"""Places in the same numbers, after `CHURN`."""

NO_COUNTS = (0,) * 12


GROUPS = frozenset({"message_stats", "queue_totals", "churn_rates"})
"""Objects in rows that hold keys with rates and samples."""


def wanted_details(columns: Iterable[Sequence[str]], sort: str | None) -> frozenset[str] | None:
    """Return the keys with rates and samples that columns and sort order need; None for all."""
    paths = [tuple(each) for each in columns]
    if not paths or any(path[-1] in GROUPS for path in paths):
        return None
    if sort:
        paths.append(tuple(sort.split(".")))
    return frozenset(name for path in paths for name in path if name.endswith("_details"))


class Figures:
    """Counts and rates as one request wants them."""

    def __init__(self, history: History, ranges: Ranges, wanted: Container[str] | None = None) -> None:
        """Create a view with all keys, or with those keys of rates and samples that are `wanted`."""
        self._history = history
        self._ranges = ranges
        self._wanted = wanted
        self._shown = SamplesShown()

    @property
    def has_samples(self) -> bool:
        """Whether rows have samples, of which a response may have too many."""
        return any(each is not None for each in self._ranges)

    # --- objects

    def of_queue(self, vhost: str, name: str, counts: Sequence[int] | None) -> Entry:
        """Return the statistics of a queue: `message_stats` once something has happened in it."""
        series = [self._history.of("queues", vhost, name)]
        row = self._details(series, LENGTHS, 0, self._ranges.lengths)
        if counts is not None:
            stats = self._counted(series, counts, (PUBLISH, DELIVERIES), AFTER_LENGTHS)
            if stats:
                row["message_stats"] = stats
        return row

    def of_exchange(self, vhost: str, name: str, counts: Sequence[int]) -> Entry:
        """Return the statistics of an exchange, if anything was published there."""
        series = [self._history.of("exchanges", vhost, name)]
        stats = self._counted(series, counts, ({"publish_in": (0,)}, {"publish_out": (1,)}), 0)
        return {"message_stats": stats} if stats else {}

    def of_channel(self, name: str, counts: Sequence[int]) -> Entry:
        """Return the statistics of a channel, if it published or received anything."""
        stats = self._counted([self._history.of("channels", "", name)], counts, (PUBLISHES, DELIVERIES), 0)
        return {"message_stats": stats} if stats else {}

    def of_connection(self, name: str) -> Entry:
        """Return the rates of the bytes of a connection."""
        return self._details([self._history.of("connections", "", name)], OCTETS, 0, self._ranges.data_rates)

    def of_vhosts(self, names: Iterable[str], counts: Sequence[int], shown: Sequence[Mapping[str, Places]]) -> Entry:
        """Return `message_stats` of virtual hosts together; only of groups in which something was counted."""
        return self._counted(self._vhosts(names), counts, shown, AFTER_LENGTHS)

    def lengths_of_vhosts(self, names: Iterable[str]) -> Entry:
        """Return the rates of the numbers of messages in virtual hosts."""
        return self._details(self._vhosts(names), LENGTHS, 0, self._ranges.lengths)

    def disk(self, counts: Sequence[int]) -> Entry:
        """Return the messages read from the disk and written to it."""
        row = self._details([self._history.of("overview", "", "")], DISK, 0, self._ranges.message_rates)
        return dict(zip(DISK, counts, strict=True)) | row

    def churn(self, counts: Sequence[int]) -> Entry:
        """Return the connections, channels and queues that came and went, with their rates."""
        places = {name: (place,) for place, name in enumerate(CHURN)}
        details = self._details([self._history.of("overview", "", "")], places, 0, self._ranges.node)
        return {name: counts[place] for place, name in enumerate(CHURN)} | details

    def _vhosts(self, names: Iterable[str]) -> list[Series]:
        return [self._history.of("vhosts", "", name) for name in names]

    # --- shapes

    def _counted(
        self, series: Sequence[Series], counts: Sequence[int], groups: Sequence[Mapping[str, Places]], first: int
    ) -> Entry:
        found: Entry = {}
        for group in groups:
            if any(counts[place] for places in group.values() for place in places):
                found |= {name: sum(counts[place] for place in places) for name, places in group.items()}
                found |= self._details(series, group, first, self._ranges.message_rates)
        return found

    def _details(
        self, series: Sequence[Series], group: Mapping[str, Places], first: int, within: Range | None
    ) -> Entry:
        """Return the keys with `_details` of a group whose numbers begin at the place `first` in the series."""
        history, wanted = self._history, self._wanted
        if wanted is not None:
            group = {name: places for name, places in group.items() if f"{name}_details" in wanted}
        if not group:
            return {}
        if within is not None:
            return self._sampled(series, group, first, within)
        changed = [each for each in series if each.last > history.previous]
        if not changed or history.last == history.previous:
            return {f"{name}_details": {"rate": 0.0} for name in group}
        earlier, later = _added(changed, history.previous), _added(changed, history.last)
        return {
            f"{name}_details": {
                "rate": round((_sum(later, places, first) - _sum(earlier, places, first)) / history.seconds, 2)
            }
            for name, places in group.items()
        }

    def _sampled(self, series: Sequence[Series], group: Mapping[str, Places], first: int, within: Range) -> Entry:
        self._shown.add((within.steps + 1) * max(len(group), len(series)))  # many virtual hosts are added up
        newest = self._history.last // within.increment * within.increment
        times = [newest - step * within.increment for step in range(within.steps + 1)]
        numbers = [_added(series, time) for time in times]
        found: Entry = {}
        for name, places in group.items():
            values = [_sum(each, places, first) for each in numbers]
            found[f"{name}_details"] = {
                "rate": (values[0] - values[1]) / within.increment if len(values) > 1 else 0.0,
                "samples": [
                    {"sample": value, "timestamp": time * 1000} for value, time in zip(values, times, strict=True)
                ],
                "avg_rate": (values[0] - values[-1]) / (within.steps * within.increment) if len(values) > 1 else 0.0,
                "avg": sum(values) / len(values),
            }
        return found


def _added(series: Sequence[Series], time: int) -> Sequence[int]:
    """Return the numbers of all the series at a time, added up."""
    found = [numbers for each in series if (numbers := each.at(time))]
    return found[0] if len(found) == 1 else [sum(column) for column in zip(*found, strict=True)]


def _sum(numbers: Sequence[int], places: Places, first: int) -> int:
    return sum(numbers[first + place] for place in places) if numbers else 0
