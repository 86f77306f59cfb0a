"""The results of `settle` by a plain loop over the rows of events: a second way to the same tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

RETURN_NS = 10_000_000_000
REACH_NS = 31 * 86_400_000_000_000
SKEW_NS = 3_600_000_000_000

CONTENT = (
    *("exchange", "routing_key", "content_type", "content_encoding", "correlation_id", "message_type", "app_id"),
    "digest",
)
"""Columns that identify a message without a message_id."""


class Oracle:
    """Takes the events of one chain in their order, those of all batches together."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self.messages: list[Row] = []
        self.deliveries: list[Row] = []
        self.published: dict[tuple[Any, ...], Row] = {}
        self.returned: set[tuple[Any, ...]] = set()
        self.delivered: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        self.hosts: dict[str, str | None] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.channel_counts: Counter[tuple[str, int, int, str]] = Counter()
        self.closed: dict[str, Row] = {}
        """By connection, the event that ended it."""
        self.closed_channels: dict[tuple[str, int, int], Row] = {}

    def run(self, events: Iterable[Row]) -> Oracle:
        rows = list(events)
        for row in rows:
            if row["type"] == "connection" and row["outcome"] == "opened":
                self.hosts[row["connection_id"]] = row["virtual_host"]
        for row in rows:
            getattr(self, "on_" + row["type"].replace("-", "_"), lambda row: None)(row)
        self.link()
        for message in self.messages:
            if message["outcome"] is None:
                message["outcome"] = "unknown" if message["awaits"] else "sent"
        for delivery in self.deliveries:
            delivery["outcome"] = delivery["outcome"] or "unknown"
        return self

    # --- publishes

    def on_publish(self, row: Row) -> None:
        message = {**row, "outcome": None, "settled_ns": None, "route": None}
        if row["awaits"] is None:
            message["outcome"] = "unknown"
        self.messages.append(message)
        self.published[_key(row, row["number"])] = message
        self.count(row, "published")

    def on_return(self, row: Row) -> None:
        self.returned.add(_key(row, row["number"]))
        message = self.published.get(_key(row, row["number"]))
        if message is not None and (message["awaits"] or row["ts_ns"] - message["ts_ns"] <= RETURN_NS):
            message["route"] = "returned"

    def on_publishes_settled(self, row: Row) -> None:
        for span in row["spans"]:
            for number in range(span["first"], span["last"] + 1):
                message = self.published[_key(row, number)]
                if message["ts_ns"] == span["ts_ns"]:
                    message["outcome"], message["settled_ns"] = row["outcome"], row["ts_ns"]

    # --- deliveries

    def on_deliver(self, row: Row) -> None:
        delivery = {**row, "settled_ns": None}
        delivery["outcome"] = row.get("outcome") or "auto-acked" if row["awaits"] is False else None
        delivery["settled_requeue"] = None
        self.deliveries.append(delivery)
        self.delivered[_key(row, row["number"])].append(delivery)
        self.count(row, "delivered")

    on_get = on_deliver

    def on_deliveries_settled(self, row: Row) -> None:
        for span in row["spans"]:
            for tag in range(span["first"], span["last"] + 1):
                for delivery in self.delivered[_key(row, tag)]:
                    if delivery["ts_ns"] == span["ts_ns"] and delivery["awaits"] is not False:
                        delivery["outcome"], delivery["settled_ns"] = row["outcome"], row["ts_ns"]
                        delivery["settled_requeue"] = row["requeue"]

    # --- connections and channels

    def count(self, row: Row, what: str) -> None:
        of_channel = (row["connection_id"], row["channel"], row["epoch"])
        if row["connection_id"] not in self.closed:
            self.counts[row["connection_id"], what] += 1
            if of_channel not in self.closed_channels:
                self.channel_counts[(*of_channel, what)] += 1

    def on_connection(self, row: Row) -> None:
        if row["outcome"] == "closed":
            self.closed.setdefault(row["connection_id"], row)

    def on_channel(self, row: Row) -> None:
        if row["outcome"] == "closed":
            self.closed_channels.setdefault((row["connection_id"], row["channel"], row["epoch"]), row)

    # --- from publishes to deliveries

    def link(self) -> None:
        """Give each delivery its publish."""
        contents: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        taken = [each for each in self.messages if not self.is_void(each)]
        for rank, rows in enumerate((taken, self.deliveries)):
            for row in rows:
                row["rank"] = rank
                content = self.content(row)
                if content is not None:
                    contents[content].append(row)
        for rows in contents.values():
            rows.sort(key=lambda row: (row["ts_ns"], row["rank"], row["connection_id"], row["seq"]))
            self.link_alike(rows)

    def link_alike(self, rows: list[Row]) -> None:
        publishes = [row for row in rows if row["rank"] == 0]
        firsts = Counter(_queue(row) for row in rows if row["rank"] == 1 and not row["redelivered"])
        if len(publishes) == 1 and (rows[0]["message_id"] or max(firsts.values(), default=0) <= 1):
            self.link_single(rows, publishes[0])
            return
        published: list[Row] = []
        first: Counter[Any] = Counter()
        again: Counter[Any] = Counter()
        for row in rows:
            if row["rank"] == 0:
                if not published or row["ts_ns"] - published[-1]["ts_ns"] > self.window_ns:
                    published, first, again = [], Counter(), Counter()
                published.append(row)
                continue
            queue = _queue(row)
            again[queue] += row["redelivered"]
            row["redelivery_count"] = again[queue] if row["redelivered"] else 0
            place = 1 if len(published) == 1 else None
            if not row["redelivered"]:
                first[queue] += 1
                place = first[queue]
            if place is None:
                continue
            row["place"], row["alike"] = place, published
        for row in rows:
            alike = row.get("alike", [])
            if row["rank"] == 1 and alike and row["place"] <= len(alike):
                publish = alike[row["place"] - 1]
                window_ns = REACH_NS if len(publishes) == 1 else self.window_ns
                if 0 <= row["ts_ns"] - publish["ts_ns"] <= window_ns:
                    row["publish"] = publish

    def link_single(self, rows: list[Row], publish: Row) -> None:
        """The only publish is that of all deliveries, also of those before it by another host's clock."""
        again: Counter[Any] = Counter()
        for row in rows:
            if row["rank"] == 1:
                again[_queue(row)] += row["redelivered"]
                row["redelivery_count"] = again[_queue(row)] if row["redelivered"] else 0
                skew_ns = 0 if row["chain"] == publish["chain"] else SKEW_NS
                if -skew_ns <= row["ts_ns"] - publish["ts_ns"] <= REACH_NS:
                    row["publish"] = publish

    def content(self, row: Row) -> tuple[Any, ...] | None:
        host = self.hosts.get(row["connection_id"])
        if row["message_id"]:
            return (host, row["message_id"], row["size"])
        if row["digest"] is not None:
            return (host, *(row[name] for name in CONTENT))
        return None

    def is_void(self, row: Row) -> bool:
        """Whether a publish has reached no queue."""
        is_returned = (*_key(row, row["number"]),) in self.returned
        return is_returned or row["outcome"] in ("nacked", "rolled back") or row["verdict"] in ("refused", "dropped")


def _queue(row: Row) -> Any:
    return row["queue"] or (row["connection_id"], row["channel"], row["consumer_tag"])


def _key(row: Row, number: int | None) -> tuple[Any, ...]:
    return row["connection_id"], row["channel"], row["epoch"], number
