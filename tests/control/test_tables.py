"""Lists as tables."""

import time
from typing import Any

import pytest

from amqproxy.control.tables import CONNECTIONS, METRICS, age_text, any_text, size_text, table, time_text

CONNECTION: dict[str, Any] = {
    "session": 3,
    "connection": "10.0.0.7:4711-10.0.0.1:5673",
    "connected_at": 0.0,
    "state": "open",
    "user": "guest",
    "vhost": "/",
    "name": "",
    "product": "pika",
    "tls": True,
    "blocked": False,
    "channels": 2,
    "consumers": 1,
    "bytes": {"client": 1234, "server": 12},
}


def test_connections() -> None:
    now = time.time()
    entries = [
        CONNECTION | {"connected_at": now - 7300},
        CONNECTION | {"session": 12, "name": "bad\x1b[31m", "blocked": True, "tls": False, "connected_at": now - 5},
    ]
    assert list(table(CONNECTIONS, entries)) == [
        "SESSION  CLIENT         USER   VHOST  NAME             PRODUCT  STATE    TLS  CHANNELS  CONSUMERS  "
        "FROM CLIENT  FROM SERVER  AGE",
        "      3  10.0.0.7:4711  guest  /                       pika     open     yes         2          1  "
        "    1.23 kB         12 B  2 h",
        '     12  10.0.0.7:4711  guest  /      "bad\\u001b[31m"  pika     blocked              2          1  '
        "    1.23 kB         12 B  5 s",
    ]


def test_no_entries() -> None:
    assert list(table(METRICS, [])) == ["METRIC  LABELS  VALUE"]


def test_metrics() -> None:
    entries = [
        {"name": "amqproxy_channels", "labels": {}, "value": 2.0},
        {"name": "amqproxy_frames_total", "labels": {"sender": "client", "type": "a b"}, "value": 12345678.0},
    ]
    assert list(table(METRICS, entries)) == [
        "METRIC                 LABELS                       VALUE",
        "amqproxy_channels                                       2",
        'amqproxy_frames_total  sender=client,type="a b"  12345678',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (False, ""), (True, "yes"), ("", ""), ({}, ""), (0, "0"), ("a b", '"a b"'), ({"x": 1}, '{"x": 1}')],
)
def test_any_value(value: Any, text: str) -> None:
    assert any_text(value) == text


def test_quantities() -> None:
    assert [size_text(each) for each in (0, 999, 1000, 2_500_000, 3e9, 4e12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "2.5 MB",
        "3 GB",
        "4 TB",
    ]
    assert [age_text(each) for each in (0.2, 59.9, 60, 7200, 86_400)] == ["0 s", "59 s", "1 m", "2 h", "1 d"]
    assert [time_text(each) for each in (None, 50e-6, 0.0032, 2.5)] == ["", "50 µs", "3.2 ms", "2.5 s"]
