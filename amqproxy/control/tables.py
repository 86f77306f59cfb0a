"""Table columns of the lists of the control socket, for the command line and `top`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from amqproxy.taps.text import value_text

Entry = Mapping[str, Any]

_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def size_text(count: float) -> str:
    """Format a number of bytes with about three digits: 1.25 MB."""
    for least, unit in _SIZES:
        if count >= least:
            return f"{count / least:.3g} {unit}"
    return f"{count:.0f} B"


def age_text(seconds: float) -> str:
    """Format an age in its largest unit: 3 h."""
    for least, unit in _AGES:
        if seconds >= least:
            return f"{int(seconds / least)} {unit}"
    return "0 s"


def time_text(seconds: float | None) -> str:
    """Format a short duration: 3.2 ms; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def any_text(value: Any) -> str:
    """Format a value with control characters escaped; "" for unknown, false or empty values."""
    if value is None or value is False or value == "" or value == {}:
        return ""
    if value is True:
        return "yes"
    return value if isinstance(value, str) and value.isprintable() else value_text(value)


class Column(NamedTuple):
    """A column: its heading, its value in an entry, which is also the sort key, and the text of that value."""

    heading: str
    value: Callable[[Entry], Any]
    text: Callable[[Any], str] = any_text
    is_number: bool = False


def _age(entry: Entry) -> float:
    return max(0.0, time.time() - float(entry["connected_at"]))


def field(heading: str, name: str) -> Column:
    """Return a column with a field of each entry."""
    return Column(heading, lambda entry: entry.get(name))


def number(heading: str, name: str) -> Column:
    """Return a column with a number of each entry, which may be None for unknown."""
    return Column(heading, lambda entry: entry.get(name), lambda value: "" if value is None else str(value), True)


def _sent(peer: str) -> Callable[[Entry], Any]:
    return lambda entry: entry["bytes"][peer]


CONNECTIONS = (
    number("session", "session"),
    Column("client", lambda entry: entry["connection"].partition("-")[0]),
    field("user", "user"),
    field("vhost", "vhost"),
    field("name", "name"),
    field("product", "product"),
    field("AMQP", "protocol"),
    field("upstream", "upstream"),
    Column("state", lambda entry: "blocked" if entry["blocked"] else entry["state"]),
    field("TLS", "tls"),
    number("channels", "channels"),
    number("consumers", "consumers"),
    Column("from client", _sent("client"), size_text, True),
    Column("from server", _sent("server"), size_text, True),
    Column("age", _age, age_text, True),
)
"""Columns of the request `connections`."""

CHANNELS = (
    number("session", "session"),
    number("channel", "channel"),
    field("user", "user"),
    field("vhost", "vhost"),
    field("name", "name"),
    field("state", "state"),
    field("mode", "mode"),
    number("prefetch", "prefetch"),
    number("global", "global_prefetch"),
    number("consumers", "consumers"),
    number("unacked", "unacked"),
    number("unconfirmed", "unconfirmed"),
    Column("from client", lambda entry: entry["messages"]["client"], str, True),
    Column("from server", lambda entry: entry["messages"]["server"], str, True),
    Column("open content", lambda entry: " ".join(each for each in entry["open_content"].values() if each)),
    field("session name", "session_name"),
)
"""Columns of the request `channels`."""

CONSUMERS = (
    number("session", "session"),
    number("channel", "channel"),
    field("user", "user"),
    field("vhost", "vhost"),
    field("name", "name"),
    field("queue", "queue"),
    field("consumer tag", "consumer_tag"),
    field("no ack", "no_ack"),
    field("exclusive", "exclusive"),
    number("prefetch", "prefetch"),
    field("arguments", "arguments"),
)
"""Columns of the request `consumers`."""


def _renewals_text(counts: Mapping[str, int] | None) -> str:
    """Format the renewals of tokens: 48, or 48 (2 failed)."""
    if counts is None:
        return ""
    return f"{counts['renewed']} ({counts['failed']} failed)" if counts["failed"] else str(counts["renewed"])


UPSTREAMS = (
    field("upstream", "upstream"),
    field("member", "member"),
    field("zone", "zone"),
    field("state", "state"),
    number("weight", "weight"),
    number("priority", "priority"),
    number("connections", "connections"),
    number("blocked", "blocked"),
    number("failures", "failures"),
    number("retries", "retries"),
    number("ejections", "ejections"),
    number("login queue", "login_queue"),
    Column("connect", lambda entry: entry["connect_seconds"], time_text, True),
    number("TLS handshakes", "tls_handshakes"),
    Column("tokens", lambda entry: entry.get("token_renewals"), _renewals_text),
    field("last failure", "last_failure"),
)
"""Columns of the request `upstreams`."""

POOLS = (
    field("upstream", "upstream"),
    field("member", "member"),
    field("vhost", "vhost"),
    field("user", "user"),
    number("connections", "connections"),
    number("clients", "clients"),
    number("pinned", "pinned"),
    number("channels", "channels"),
    number("waiting", "waiting"),
    number("blocked", "blocked"),
)
"""Columns of the request `pools`."""

SWITCHES = (
    field("switch", "switch"),
    field("state", "state"),
    number("clients", "clients"),
    number("queues", "queues"),
    number("empty", "empty"),
    number("moved", "moved"),
    number("left", "left"),
    Column("order", lambda entry: "strict" if entry["strict"] else ""),
    field("waits for", "waits"),
)
"""Columns of the request `switches`."""

SWITCH_QUEUES = (
    field("vhost", "vhost"),
    field("queue", "queue"),
    field("state", "state"),
    number("moved", "moved"),
    number("left", "left"),
    field("reason", "text"),
)
"""Columns of the request `switches-queues`."""


def _at(side: str, name: str) -> Callable[[Entry], Any]:
    return lambda entry: entry[side][name]


SWITCH_DEPTHS = (
    field("vhost", "vhost"),
    field("queue", "queue"),
    *(
        Column(f"{name} at {side}", _at(side, name), lambda value: "" if value is None else str(value), True)
        for side in ("source", "target")
        for name in ("messages", "consumers")
    ),
    Column("remark", lambda entry: entry["source"]["text"] or entry["target"]["text"]),
)
"""Columns of the request `switches-compare`."""

TRANSACTIONS = (
    field("vhost", "vhost"),
    number("format", "format"),
    field("global id", "global_id"),
    field("branch id", "branch_id"),
    field("state", "state"),
    number("timeout", "timeout"),
    number("sessions", "sessions"),
    number("published", "published"),
    number("accepted", "accepted"),
    Column("memory", lambda entry: entry["bytes"], size_text, True),
)
"""Columns of the request `broker-transactions`."""


def _identity(entry: Entry) -> str:
    if entry["kind"] == "binding":
        return f"{any_text(entry['source'])} → {any_text(entry['destination'])}"
    if entry["kind"] == "consumer":
        return f"{any_text(entry['queue'])} → {any_text(entry['consumer_tag'])}"
    return any_text(entry["name"])


def _what(entry: Entry) -> str:
    """Return type and flags of a queue, an exchange or a consumer, or the routing key of a binding."""
    if entry["kind"] == "binding":
        return any_text(entry["routing_key"])
    if entry["arguments"] is None:
        return ""
    flags = [name for name in ("durable", "exclusive", "auto_delete", "internal", "no_ack") if entry.get(name)]
    kind = entry.get("type") or entry["arguments"].get("x-queue-type", "")
    return " ".join([kind, *flags] if kind else flags)


def _by(entry: Entry) -> str:
    """Return the client that deleted an object, else the one that declared it; of a consumer, its own client."""
    if entry["kind"] == "consumer":
        return f"{any_text(entry['user'])}@{any_text(entry['connection'].partition('-')[0])} #{entry['session']}"
    actor = entry.get("deleted_by") or entry["declared_by"]
    return "" if actor is None else f"{any_text(actor['user'])}@{any_text(actor['client'])} #{actor['session']}"


TOPOLOGY = (
    field("kind", "kind"),
    field("vhost", "vhost"),
    Column("name", _identity, str),
    Column("type, or routing key", _what, str),
    Column("state", lambda entry: entry.get("deleted_for") or entry.get("state")),
    number("consumers", "consumers"),
    field("arguments", "arguments"),
    Column("by", _by, str),
)
"""Columns of the request `topology`."""

METRICS = (
    field("metric", "name"),
    Column(
        "labels", lambda entry: ",".join(f"{name}={value_text(value)}" for name, value in entry["labels"].items()), str
    ),
    Column("value", lambda entry: entry["value"], lambda value: "" if value is None else f"{value:.15g}", True),
)
"""Columns of the request `stats`."""


def table(columns: Iterable[Column], entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the line of headings, then a line for each entry, in columns as wide as their widest cell."""
    columns = tuple(columns)
    rows = [[column.heading.upper() for column in columns]]
    rows += [[column.text(column.value(entry)) for column in columns] for entry in entries]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
