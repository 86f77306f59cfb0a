"""The ranges of a query: how far back samples of rates and lengths go, and in what steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MOST_SAMPLES_SHOWN = 1000
"""Samples of a range; a longer one ends there."""


class Range(NamedTuple):
    """The last `age` seconds in steps of `increment` seconds."""

    age: int
    increment: int

    @property
    def steps(self) -> int:
        """Number of steps; there is one sample more."""
        return min(self.age // self.increment, MOST_SAMPLES_SHOWN)


class Ranges(NamedTuple):
    """The ranges that a query asks for; where it asks for none, only rates are shown."""

    lengths: Range | None = None
    message_rates: Range | None = None
    data_rates: Range | None = None
    node: Range | None = None


def ranges_of(query: Mapping[str, str]) -> Ranges:
    """Return the ranges of a query; as in RabbitMQ, one that is incomplete or not in numbers is ignored."""
    return Ranges(
        _range(query, "lengths"),
        _range(query, "msg_rates"),
        _range(query, "data_rates"),
        _range(query, "node_stats"),
    )


def _range(query: Mapping[str, str], name: str) -> Range | None:
    age, increment = _seconds(query.get(f"{name}_age")), _seconds(query.get(f"{name}_incr"))
    return Range(age, increment) if age and increment else None


def _seconds(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
