"""Rates between two readings of a proxy's counters, in the shape of a capture's activity samples."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from amqproxy.taps.metrics import LATENCY_BUCKETS
from amqproxy.top.samples import Sample, Window

_MESSAGES = ("published", "confirmed", "nacked", "returned", "delivered", "acked", "rejected", "requeued")

_METHOD_FRAMES = ("method", "control", "command")
"""Types of frames that begin with a method: "method" in 0-9-1, "control" and "command" in 0-10."""

_GAUGES = {
    "connections": "amqproxy_connections",
    "blocked": "amqproxy_connections_blocked",
    "channels": "amqproxy_channels",
    "consumers": "amqproxy_consumers",
    "unacked": "amqproxy_messages_unacked",
    "unconfirmed": "amqproxy_messages_unconfirmed",
}


def proxy_sample(before: Sample, after: Sample) -> dict[str, Any]:
    """Return the rates and gauges of the time between two readings."""
    window = Window(before, after)
    methods: Counter[str] = Counter()
    for kind in _METHOD_FRAMES:
        methods.update(window.rates("amqproxy_frames_total", "method", type=kind))
    sizes = window.rates("amqproxy_frame_bytes_total", "sender")
    errors = window.rate("amqproxy_protocol_errors_total") or 0.0
    for name in ("amqproxy_channel_closes_total", "amqproxy_connection_closes_total"):
        errors += sum(rate for code, rate in window.rates(name, "code").items() if code not in ("0", "200"))
    return {
        "ts": before.time,
        "seconds": after.time - before.time,
        "frames": window.rate("amqproxy_frames_total"),
        "methods": methods,
        "bytes": {peer: sizes.get(peer, 0.0) for peer in ("client", "server")},
        "messages": {name: window.rate(f"amqproxy_messages_{name}_total") for name in _MESSAGES},
        "opened": window.rate("amqproxy_connections_opened_total"),
        "closed": window.rate("amqproxy_connection_closes_total"),
        "errors": errors,
        "confirm": _buckets(window, "amqproxy_publish_confirm_seconds"),
        "ack": _buckets(window, "amqproxy_delivery_ack_seconds"),
        **{name: after.total(metric) for name, metric in _GAUGES.items()},
        "lag": after.process["lag"],
        "temporary_rules": after.process.get("temporary_rules", 0),
        "dropped": window.rate("amqproxy_records_dropped_total"),
    }


def _buckets(window: Window, name: str) -> list[float]:
    """Return the count of new observations per bucket, mapped to our bounds, which may differ from the proxy's."""
    now = window.after.buckets(name)
    then = {} if window.before is None else window.before.buckets(name)
    counts = [0.0] * (len(LATENCY_BUCKETS) + 1)
    below = 0.0
    for bound in sorted(now):
        count = now[bound] - then.get(bound, 0.0)
        place = len(LATENCY_BUCKETS) if math.isinf(bound) else _place(bound)
        counts[place] += max(0.0, count - below)
        below = max(below, count)
    return counts


def _place(bound: float) -> int:
    return next((place for place, each in enumerate(LATENCY_BUCKETS) if bound <= each), len(LATENCY_BUCKETS))
