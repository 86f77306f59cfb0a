"""The lists that `top` shows, and the lines above them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from amqproxy.control import tables
from amqproxy.control.tables import Column, Entry, age_text, size_text, time_text
from amqproxy.top.samples import Sample, Window, with_rates

UNKNOWN = "-"
"""Text for an unknown rate or latency."""

MOST_ROWS = 500
"""Maximum number of rows shown, in sort order."""

MOST_CELL = 24
"""Characters of a text that a list shows at least; a connection's page has all of it."""


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


def first(columns: Iterable[Column], *headings: str) -> tuple[Column, ...]:
    """Return columns with those of these headings first: what a terminal of 80 columns shows without scrolling."""
    others = {column.heading: column for column in columns}
    return (*[others.pop(heading) for heading in headings], *others.values())


CHANNELS = first(
    (*tables.CHANNELS, _rate("client/s", "client", rate_text), _rate("server/s", "server", rate_text)),
    *("session", "channel", "name", "unacked", "unconfirmed", "client/s", "server/s", "prefetch", "user", "state"),
)

VIEWS = (
    View(
        "connections",
        first(
            (
                *tables.CONNECTIONS,
                _rate("client/s", "client", byte_rate_text),
                _rate("server/s", "server", byte_rate_text),
            ),
            *("session", "name", "user", "state", "client/s", "server/s", "channels", "consumers", "client", "vhost"),
        ),
        lambda entry: entry["session"],
        "bytes",
    ),
    View("channels", CHANNELS, lambda entry: (entry["session"], entry["channel"]), "messages"),
    View(
        "consumers",
        first(tables.CONSUMERS, "session", "channel", "queue", "name", "prefetch", "no ack", "user"),
        lambda entry: (entry["session"], entry["channel"], entry["consumer_tag"]),
    ),
    View(
        "topology",
        first(tables.TOPOLOGY, "kind", "name", "type, or routing key", "state", "consumers", "by"),
        lambda entry: tuple(
            str(entry.get(name))
            for name in (
                *("kind", "vhost", "name", "source", "destination", "routing_key", "arguments"),
                *("session", "channel", "consumer_tag"),
            )
        ),
    ),
)


def session_of(entry: Entry) -> int | None:
    """Return the session of an entry, or of the client that deleted or declared an object; `None` if not known."""
    actor = entry.get("deleted_by") or entry.get("declared_by") or {}
    session: int | None = entry.get("session", actor.get("session"))
    return session


class Row(NamedTuple):
    """A row: the identity of its entry, its cells as texts, and the session that it belongs to, if that is known."""

    key: Hashable
    cells: list[str]
    session: int | None


def rows(
    view: View, entries: Iterable[Entry], *, sort: int, is_reversed: bool, filter: str, width: int = 80
) -> list[Row]:
    """Return the entries that contain each word of `filter`, sorted by the column with the number `sort`.

    Entries without a value come last. A cell takes a quarter of `width`, the terminal's columns, or `MOST_CELL`.
    """
    most = max(MOST_CELL, width // 4)
    words = filter.lower().split()
    found = []
    for entry in entries:
        cells = [column.text(column.value(entry)) for column in view.columns]
        line = "  ".join(cells).lower()
        if all(word in line for word in words):
            shown = [cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell in cells]
            found.append((view.columns[sort].value(entry), Row(view.key(entry), shown, session_of(entry))))
    known = [each for each in found if each[0] is not None]
    unknown = [each for each in found if each[0] is None]
    known.sort(key=lambda each: (_rank(each[0]), each[0] if _rank(each[0]) == 0 else str(each[0])), reverse=is_reversed)
    return [row for _, row in (known + unknown)[:MOST_ROWS]]


def _rank(value: object) -> int:
    """Return the sort rank of a type: numbers come before texts."""
    return 0 if isinstance(value, (int, float)) else 1


def header(before: Sample | None, after: Sample, width: int) -> list[str]:
    """Return two lines about the whole proxy, what matters first: state, and rates and latencies since `before`.

    Each has as many items as fit `width`.
    """
    process, window = after.process, Window(before, after)
    lag = process["lag"]
    state = [f"up {age_text(process['uptime'])}"]
    for name, metric in _COUNTS:
        value = after.total(metric)
        if value is not None and (value or name not in _TROUBLES):
            state.append(f"{name} {value:,.0f}")
    state.append(f"late by {time_text(lag['now'])} (at most {time_text(lag['most'])})")
    state.append(f"amqproxy {process['version']}, process {process['pid']}")
    flow = []
    for name, metric in _RATES:
        rate = window.rate(metric)
        if rate or name not in _TROUBLES:
            flow.append(f"{name} {rate_text(rate) or UNKNOWN}/s")
    for share in (0.99, 0.95, 0.5):
        for name, metric in _LATENCIES:
            latency = time_text(window.quantile(metric, share)) or UNKNOWN
            flow.append(f"{name} p{share * 100:.0f} {latency}")
    return [_fitting(state, width), _fitting(flow, width)]


def _fitting(items: Iterable[str], width: int) -> str:
    """Join the first items that fit one line."""
    line = ""
    for item in items:
        longer = f"{line}  {item}" if line else item
        if len(longer) > width:
            break
        line = longer
    return line


_COUNTS = (
    ("blocked", "amqproxy_connections_blocked"),
    ("connections", "amqproxy_connections"),
    ("channels", "amqproxy_channels"),
    ("consumers", "amqproxy_consumers"),
    ("unacked", "amqproxy_messages_unacked"),
    ("unconfirmed", "amqproxy_messages_unconfirmed"),
    ("pumped", "amqproxy_connections_pumped"),
)
_RATES = (
    ("returned", "amqproxy_messages_returned_total"),
    ("requeued", "amqproxy_messages_requeued_total"),
    ("published", "amqproxy_messages_published_total"),
    ("delivered", "amqproxy_messages_delivered_total"),
)
_TROUBLES = frozenset({"blocked", "returned", "requeued"})
"""Items that are shown, and then first, only if they are not 0."""
_LATENCIES = (
    ("confirm", "amqproxy_publish_confirm_seconds"),
    ("ack", "amqproxy_delivery_ack_seconds"),
    ("here", "amqproxy_relay_seconds"),
)
