"""Where dead letters came from, by their x-death."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.workbench.origin import Origin, origin_of

FIRST = {"queue": "orders", "reason": "rejected", "exchange": "shop", "routing-keys": ["new", "copy"], "count": 1}
RETRY = {"queue": "retry", "reason": "expired", "exchange": "", "routing-keys": ["retry"], "count": 3}


def properties(deaths: Any, **first: str) -> Properties:
    headers = {f"x-first-death-{name}": value for name, value in first.items()}
    return Properties(headers=Table({"x-death": deaths, **headers}))


@pytest.mark.parametrize("deaths", [[RETRY, FIRST], [FIRST, RETRY]], ids=["newest first", "counted again"])
def test_the_first_death_counts(deaths: list[dict[str, Any]]) -> None:
    found = origin_of(properties(deaths, queue="orders", reason="rejected"))
    assert found == Origin("orders", "shop", ("new", "copy"))


def test_without_the_first_death_it_is_the_oldest_entry() -> None:
    assert origin_of(properties([RETRY, FIRST])) == Origin("orders", "shop", ("new", "copy"))


@pytest.mark.parametrize(
    "deaths",
    [
        [],
        "x",
        [5],
        [{"queue": "q"}],
        [{**FIRST, "routing-keys": []}],
        [{**FIRST, "exchange": 5}],
        [{**FIRST, "queue": 1}],
    ],
)
def test_what_cannot_be_read_is_no_origin(deaths: Any) -> None:
    assert origin_of(properties(deaths)) is None


def test_other_messages_have_none() -> None:
    assert origin_of(Properties()) is None
    assert origin_of(Properties(headers=Table({"a": 1}))) is None
