"""Rates between two looks at a proxy's counters."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.dashboard.proxy_sample import proxy_sample
from amqproxy.top.samples import Sample

pytestmark = pytest.mark.once


def look(time: float, frames: dict[tuple[str, str], int]) -> Sample:
    """At so many frames of each type and method."""
    metrics: list[dict[str, Any]] = [
        {
            "name": "amqproxy_frames_total",
            "labels": {"type": kind, "method": method, "sender": "client"},
            "value": count,
        }
        for (kind, method), count in frames.items()
    ]
    return Sample({"stats": {"started_at": 0.0, "time": time, "lag": None}, "metrics": metrics})


def test_methods_of_both_protocols_are_counted_and_no_content() -> None:
    before = {("method", "connection.open"): 1, ("control", "connection.open"): 1}
    after = {
        ("method", "connection.open"): 3,
        ("control", "connection.open"): 5,
        ("command", "message.transfer"): 8,
        ("header", "message.transfer"): 8,
        ("body", "basic.publish"): 4,
    }
    sample = proxy_sample(look(10.0, before), look(12.0, after))
    assert sample["methods"] == {"connection.open": 3.0, "message.transfer": 4.0}
    assert sample["seconds"] == 2.0
