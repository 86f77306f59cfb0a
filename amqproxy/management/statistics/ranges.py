"""The ranges of a query: how far back samples of rates and lengths go, and in what steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from amqproxy.management.failure import Failure, bad_request

MOST_STEPS = 500
"""Steps of a range, as in RabbitMQ."""

MOST_SAMPLES_SHOWN = 2_000_000
"""Samples of a response, about 80 MB and two seconds of work; RabbitMQ has no bound."""


class Range(NamedTuple):
    """The last `age` seconds in steps of `increment` seconds."""

    age: int
    increment: int

    @property
    def steps(self) -> int:
        """Number of steps; there is one sample more."""
        return self.age // self.increment


class Ranges(NamedTuple):
    """The ranges that a query asks for; where it asks for none, only rates are shown."""

    lengths: Range | None = None
    message_rates: Range | None = None
    data_rates: Range | None = None
    node: Range | None = None


class SamplesShown:
    """Number of samples that a response has, or that are added up for it."""

    def __init__(self) -> None:
        self._number = 0

    def add(self, number: int) -> None:
        """Count further samples; `Failure` beyond the bound."""
        self._number += number
        if self._number > MOST_SAMPLES_SHOWN:
            most = f"{MOST_SAMPLES_SHOWN} are the most"
            raise bad_request(f"too many samples, {most}: ask for a page, columns, or a shorter range")


def ranges_of(query: Mapping[str, str], error: str = "bad_request") -> Ranges:
    """Return the ranges of a query; as in RabbitMQ, one that is incomplete or not in numbers is ignored.

    `Failure` with RabbitMQ's text, and this error, for a range of too many steps.
    """
    return Ranges(
        _range(query, "lengths", error),
        _range(query, "msg_rates", error),
        _range(query, "data_rates", error),
        _range(query, "node_stats", error),
    )


def _range(query: Mapping[str, str], name: str, error: str) -> Range | None:
    age, increment = _seconds(query.get(f"{name}_age")), _seconds(query.get(f"{name}_incr"))
    if age is None or increment is None:
        return None
    if age <= 0 or increment <= 0 or age // increment > MOST_STEPS:
        raise Failure(400, error, f"Invalid range parameters: age {age}, incr {increment}")
    return Range(age, increment)


def _seconds(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else None
