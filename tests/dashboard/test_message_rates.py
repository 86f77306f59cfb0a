"""Rates by exchange and queue, of all messages of the last minute."""

from __future__ import annotations

import msgspec
import pytest
from starlette.testclient import TestClient

from dashboard.message_rates import SPAN_NS, message_rates
from dashboard.message_ring import MessageRow
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

SECOND = 1_000_000_000
NOW = 1_767_225_600 * SECOND


def row(seq: int, ts_ns: int, type: str, **record: str) -> MessageRow:
    return MessageRow(
        seq=seq,
        frame=seq,
        until=seq,
        came_at=0.0,
        ts_ns=ts_ns,
        stream=1,
        connection="a-b",
        channel=1,
        type=type,
        outcome="sent",
        code=0,
        tags=(),
        content=None,
        json=msgspec.json.encode({"type": type, **record}),
        cost=1,
    )


def test_all_that_passed_in_the_last_minute_is_counted() -> None:
    rows = [row(0, NOW - SPAN_NS, "publish", exchange="old")]
    rows += [row(each, NOW + each * SECOND // 100, "publish", exchange="orders") for each in range(1, 1001)]
    rows += [row(2000 + each, NOW + each * SECOND // 50, "deliver", queue="q") for each in range(1, 501)]
    rows += [row(3000, NOW + 10 * SECOND, "publish", exchange=""), row(3001, NOW, "request")]
    rates = message_rates(rows)
    assert rates.seconds == pytest.approx(10, abs=0.01)
    assert rates.published == {"orders": pytest.approx(100, rel=0.01), "(default)": pytest.approx(0.1, rel=0.01)}
    assert rates.delivered == {"q": pytest.approx(50, rel=0.01)}
    assert rates.messages == 1501


def test_of_too_little_there_are_no_rates() -> None:
    assert message_rates([]).seconds == 0
    assert message_rates([row(1, NOW, "publish", exchange="a")]).published == {}


def test_it_ends_in_time() -> None:
    rows = [row(each, NOW + each, "publish", exchange="a") for each in range(5000)]
    ticks = iter(range(10_000))
    assert message_rates(rows, lambda: float(next(ticks))).messages < 2000


def test_over_the_api(dashboard: Dashboard) -> None:
    client: TestClient = dashboard("publish-get-ack")
    found = client.get("/api/v1/sources/0/messages/rates").json()
    assert found["seconds"] > 0
    assert sum(found["published"].values()) > 0
