"""One connection with its channels and consumers, as text."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.control.tables import CONSUMERS, Column, Entry, age_text, any_text, size_text, table
from amqproxy.top.views import CHANNELS, byte_rate_text, first

KNOWN = frozenset({"session", "user", "vhost", "name"})
"""Columns that have the same value for all channels and consumers of a connection."""


def connection_page(entry: Entry, channels: Sequence[Entry], consumers: Sequence[Entry], now: float) -> str:
    """Return the page of a connection entry with its channels and consumers; `now` in seconds since 1970."""
    client, _, listener = entry["connection"].partition("-")
    product = " ".join(any_text(entry.get(each)) for each in ("product", "product_version", "platform")).strip()
    state = "blocked" if entry["blocked"] else entry["state"]
    limits = [f"{name} {entry[name]}" for name in ("channel_max", "frame_max", "heartbeat") if name in entry]
    sent = []
    for peer in ("client", "server"):
        rate = byte_rate_text(entry["rates"][peer])
        sent.append(f"from {peer} {size_text(entry['bytes'][peer])}" + (f" ({rate})" if rate else ""))
    facts = {
        "name": any_text(entry["name"]),
        "client": f"{client} → {listener}",
        "user": f"{any_text(entry['user'])}, virtual host {any_text(entry['vhost'])}",
        "product": product,
        "state": f"{state} for {age_text(max(0.0, now - entry['connected_at']))}",
        "relayed by": any_text(entry.get("relayed_by")),
        "upstream": any_text(entry.get("upstream")),
        "TLS": any_text(entry["tls"]) and (any_text(entry.get("tls_subject")) or "yes"),
        "AMQP": "  ".join([any_text(entry.get("protocol")), *limits]).strip(),
        "bytes": ", ".join(sent),
    }
    lines = [f"Connection {entry['session']}", ""]
    lines += [f"{name:<12}{text}" for name, text in facts.items() if text]
    for title, columns, entries in (
        ("Channels", first(CHANNELS, "channel", "state", "mode", "unacked", "unconfirmed", "prefetch"), channels),
        ("Consumers", first(CONSUMERS, "channel", "queue", "consumer tag", "prefetch"), consumers),
    ):
        lines += ["", title if entries else f"No {title.lower()}"]
        if entries:
            lines += table(_own(columns), entries)
    return "\n".join(lines)


def _own(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.heading not in KNOWN]
