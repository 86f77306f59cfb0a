"""Messages and headers that are too large."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.taps.findings.detector import ObservedConnection
from amqproxy.taps.findings.large_messages import LARGE_BODY, LARGE_HEADERS, LargeMessage
from amqproxy.taps.trace.events import MessagePublished
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(("size", "is_large"), [(LARGE_BODY, False), (LARGE_BODY + 1, True)])
def test_a_body(size: int, is_large: bool) -> None:
    inspected = Inspected(1)
    event = MessagePublished(
        ts_ns=0, channel=1, number=1, method=BasicPublish(), properties=Properties(), size=size, awaits=True
    )
    found = LargeMessage(ObservedConnection(inspected.trace))._on_published(event)
    assert (found is not None) is is_large


@pytest.mark.parametrize(("size", "kinds"), [(LARGE_HEADERS + 10, ["large-headers"]), (LARGE_HEADERS - 100, [])])
def test_headers(size: int, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.confirming()
    inspected.client(BasicPublish(), properties=Properties(headers=Table({"x": "y" * size})))
    assert inspected.kinds == kinds
