"""The lists that `top` shows, and the lines above them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from amqproxy.control.tables import (
    CHANNELS,
    CONNECTIONS,
    CONSUMERS,
    TOPOLOGY,
    Column,
    Entry,
    age_text,
    size_text,
    time_text,
)
from amqproxy.top.samples import Sample, Window, with_rates

UNKNOWN = "-"
"""Text for an unknown rate or latency."""

MOST_ROWS = 500
"""Maximum number of rows shown, in sort order."""


def rate_text(rate: float | None) -> str:
    """Format a rate."""
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.3g}"


def byte_rate_text(rate: float | None) -> str:
    """Format bytes per second."""
    return "" if rate is None else size_text(rate) + "/s"


def _rate(heading: str, peer: str, text: Callable[[float | None], str]) -> Column:
    return Column(heading, lambda entry: entry["rates"][peer], text, True)


class View(NamedTuple):
    """A list: its request, its columns, the identity of an entry, and the counts with rates, if any."""

    request: str
    columns: tuple[Column, ...]
    key: Callable[[Entry], Hashable]
    counted: str = ""

    @property
    def title(self) -> str:
        return self.request.capitalize()

    @property
    def noun(self) -> str:
        """Noun for its entries."""
        return "objects" if self.request == "topology" else self.request

    def entries(self, before: Iterable[Entry], after: Iterable[Entry], seconds: float) -> list[Entry]:
        """Return the entries to show, with rates if there are any; `before` are the entries `seconds` ago."""
        if not self.counted:
            return list(after)
        return with_rates(before, after, seconds, key=self.key, counted=self.counted)


VIEWS = (
    View(
        "connections",
        (
            *CONNECTIONS[:-3],
            _rate("client/s", "client", byte_rate_text),
            _rate("server/s", "server", byte_rate_text),
            *CONNECTIONS[-3:],
        ),
        lambda entry: entry["session"],
        "bytes",
    ),
    View(
        "channels",
        (
            *CHANNELS[:-1],
            _rate("client/s", "client", rate_text),
            _rate("server/s", "server", rate_text),
            CHANNELS[-1],
        ),
        lambda entry: (entry["session"], entry["channel"]),
        "messages",
    ),
    View("consumers", CONSUMERS, lambda entry: (entry["session"], entry["channel"], entry["consumer_tag"])),
    View(
        "topology",
        TOPOLOGY,
        lambda entry: tuple(
            str(entry.get(name))
            for name in (
                *("kind", "vhost", "name", "source", "destination", "routing_key", "arguments"),
                *("session", "channel", "consumer_tag"),
            )
        ),
    ),
)


Row = tuple[Hashable, list[str]]
"""Identity of an entry, and its cells as texts."""


def rows(view: View, entries: Iterable[Entry], *, sort: int, is_reversed: bool, filter: str) -> list[Row]:
    """Return the entries that contain each word of `filter`, sorted by the column with the number `sort`.

    Entries without a value come last.
    """
    words = filter.lower().split()
    found = []
    for entry in entries:
        cells = [column.text(column.value(entry)) for column in view.columns]
        line = "  ".join(cells).lower()
        if all(word in line for word in words):
            found.append((view.columns[sort].value(entry), view.key(entry), cells))
    known = [each for each in found if each[0] is not None]
    unknown = [each for each in found if each[0] is None]
    known.sort(key=lambda each: (_rank(each[0]), each[0] if _rank(each[0]) == 0 else str(each[0])), reverse=is_reversed)
    return [(key, cells) for _, key, cells in (known + unknown)[:MOST_ROWS]]


def _rank(value: object) -> int:
    """Return the sort rank of a type: numbers come before texts."""
    return 0 if isinstance(value, (int, float)) else 1


def overview(before: Sample | None, after: Sample) -> list[str]:
    """Return lines about the whole proxy: its process, rates, and latencies since the sample before."""
    process, window = after.process, Window(before, after)
    lag = process["lag"]
    lines = [
        f"amqproxy {process['version']}  process {process['pid']}  up for {age_text(process['uptime'])}  "
        f"late by {time_text(lag['now'])} (at most {time_text(lag['most'])})",
        "now:  " + "  ".join(_counts(after)),
    ]
    rates = [(name, window.rate(metric)) for name, metric in _RATES]
    lines.append("per second:  " + "  ".join(f"{name} {rate_text(rate) or UNKNOWN}" for name, rate in rates))
    latencies = []
    for name, metric in _LATENCIES:
        shares = [time_text(window.quantile(metric, share)) or UNKNOWN for share in (0.5, 0.95, 0.99)]
        latencies.append(f"{name} {' / '.join(shares)}")
    lines.append("p50 / p95 / p99:  " + "   ".join(latencies))
    return lines


_COUNTS = (
    ("connections", "amqproxy_connections"),
    ("pumped", "amqproxy_connections_pumped"),
    ("blocked", "amqproxy_connections_blocked"),
    ("channels", "amqproxy_channels"),
    ("consumers", "amqproxy_consumers"),
    ("unacked", "amqproxy_messages_unacked"),
    ("unconfirmed", "amqproxy_messages_unconfirmed"),
)
_RATES = (
    ("published", "amqproxy_messages_published_total"),
    ("confirmed", "amqproxy_messages_confirmed_total"),
    ("returned", "amqproxy_messages_returned_total"),
    ("delivered", "amqproxy_messages_delivered_total"),
    ("acked", "amqproxy_messages_acked_total"),
    ("requeued", "amqproxy_messages_requeued_total"),
)
_LATENCIES = (
    ("publish → confirm", "amqproxy_publish_confirm_seconds"),
    ("deliver → ack", "amqproxy_delivery_ack_seconds"),
    ("here", "amqproxy_relay_seconds"),
)


def _counts(sample: Sample) -> Iterable[str]:
    for name, metric in _COUNTS:
        value = sample.total(metric)
        if value is not None:
            yield f"{name} {value:,.0f}"
