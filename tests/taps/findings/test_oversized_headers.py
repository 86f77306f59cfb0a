"""Content headers above frame_max."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.amqp091.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from tests.taps.findings.inspected import Inspected

WITHOUT = len(ContentHeader(0, Properties(headers=Table({"x": ""}))).encode()) + OVERHEAD


def opened(frame_max: int) -> Inspected:
    found = Inspected(joined=True)
    found.trace.feed_protocol_header(0)
    found.server(ConnectionStart(), channel=0)
    found.client(ConnectionStartOk(), channel=0)
    found.server(ConnectionTune(2047, 131_072, 60), channel=0)
    found.client(ConnectionTuneOk(2047, frame_max, 60), channel=0)
    found.client(ConnectionOpen("/"), channel=0)
    found.server(ConnectionOpenOk(), channel=0)
    found.client(ChannelOpen())
    found.server(ChannelOpenOk())
    found.findings.clear()
    return found


@pytest.mark.parametrize(
    ("method", "how"),
    [
        (BasicDeliver("c", 1, False, "orders", "k"), "delivered"),
        (BasicGetOk(1, False, "orders", "k", 0), "delivered"),
        (BasicReturn(312, "NO_ROUTE", "orders", "k"), "returned"),
    ],
)
@pytest.mark.parametrize("over", [0, 1])
def test_the_exchange_and_the_size_are_named(method: Method, how: str, over: int) -> None:
    inspected = opened(4096)
    inspected.server(method, properties=Properties(headers=Table({"x": "y" * (4096 - WITHOUT + over)})))
    source = f"a message of exchange 'orders', routing key 'k' is {how}"
    text = f"{source}: its content header has 4097 bytes, frame_max is 4096"
    assert [each.text for each in inspected.findings if each.kind == "header-over-frame-max"] == [text] * over


def test_nothing_is_found_where_no_limit_is_agreed() -> None:
    inspected = opened(0)
    inspected.server(BasicDeliver("c", 1), properties=Properties(headers=Table({"x": "y" * 9000})))
    assert "header-over-frame-max" not in inspected.kinds
