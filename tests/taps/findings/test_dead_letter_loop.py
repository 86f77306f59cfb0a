"""Messages that come back to a queue again and again by its dead-letter exchange."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicDeliver
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected import Inspected


def deaths(*counts: int) -> list[dict[str, Any]]:
    return [{"count": count, "queue": f"q{count}", "reason": "rejected"} for count in counts]


def delivered(headers: dict[str, Any] | None) -> Inspected:
    inspected = Inspected(1)
    inspected.consuming()
    properties = Properties(headers=None if headers is None else Table(headers))
    inspected.server(BasicDeliver("c", 1, False, "e", "k"), properties=properties)
    return inspected


def test_a_message_that_comes_back_for_ever() -> None:
    (finding,) = delivered({"x-death": deaths(3, 20)}).findings
    assert finding.kind == "dead-letter-loop"
    assert finding.text == "a message was dead-lettered 20 times by queue q20 (rejected)"


@pytest.mark.parametrize(
    "headers",
    [
        None,
        {"other": 1},
        {"x-death": deaths(19)},
        {"x-death": 50},
        {"x-death": ["a"]},
        {"x-death": [{"count": "many"}]},
        {"text": "x-death"},
    ],
)
def test_retries_that_end_and_other_headers(headers: dict[str, Any] | None) -> None:
    assert delivered(headers).kinds == []


def test_headers_of_0_10() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe()
    headers = Map({"x-death": [Map(each) for each in deaths(20)]})
    inspected.deliver(headers=headers)
    assert inspected.kinds == ["dead-letter-loop"]
