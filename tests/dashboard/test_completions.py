"""Completions of filter expressions."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from amqproxy.dashboard.completions import MAX_LENGTH, MAX_VALUES, fields, seen_values
from amqproxy.dashboard.connections import SeenConnection
from amqproxy.dashboard.message_ring import MessageRing, MessageRow
from amqproxy.rules.matching.attributes import NAMES
from amqproxy.taps.message_record import MessageRecord
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


def row(number: int, type: str, **record: str) -> MessageRow:
    """A row whose record has these fields."""
    found = MessageRing(1 << 20).append(
        MessageRecord(ts_ns=number, stream=1, connection="a-b", type=type, outcome="sent"), number
    )
    return msgspec.structs.replace(found, json=msgspec.json.encode({"type": type, **record}))


def test_values_come_with_the_most_frequent_first() -> None:
    rows = [
        row(0, "publish", exchange="rare", routing_key="a"),
        row(1, "publish", exchange="orders", routing_key="b"),
        row(2, "publish", exchange="orders", routing_key="x" * (MAX_LENGTH + 1)),
        row(3, "deliver", queue="jobs", consumer_tag="c"),
    ]
    seen = SeenConnection(stream=1, connection="a:1-b:2", since_ns=0, last_ns=0, first_seq=0, last_seq=0)
    seen.handshake = {"user": "alice", "vhost": "/", "client_properties": {"connection_name": "shop"}}
    assert seen_values(rows, [seen]) == {
        "exchange": ["orders", "rare"],
        "routing_key": ["b", "a"],
        "queue": ["jobs"],
        "consumer_tag": ["c"],
        "user": ["alice"],
        "vhost": ["/"],
        "client.name": ["shop"],
    }


def test_there_are_so_many_values_and_so_much_time() -> None:
    rows = [row(number, "publish", exchange=str(number)) for number in range(2000)]
    assert len(seen_values(rows, [])["exchange"]) == MAX_VALUES
    ticks = itertools.count()
    assert "1999" in seen_values(rows, [], clock=lambda: float(next(ticks)))["exchange"]


def test_the_fields_are_those_of_the_filter_language() -> None:
    assert [each["path"] for each in fields()] == list(NAMES)


def test_a_capture_completes_filters(dashboard: Dashboard) -> None:
    found = dashboard("confirms").get("/api/v1/sources/0/completions").json()
    assert {"path": "exchange"}.items() <= next(each for each in found["fields"] if each["path"] == "exchange").items()
    assert "basic.publish" in found["values"]["method"]
    assert found["values"]["user"] == ["guest"]
