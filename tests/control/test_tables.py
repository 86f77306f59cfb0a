"""Lists as tables."""

from typing import Any

import pytest

from amqproxy.control.tables import (
    CHANNELS,
    CONNECTIONS,
    CONSUMERS,
    METRICS,
    TOPOLOGY,
    UPSTREAMS,
    age_text,
    any_text,
    size_text,
    table,
    time_text,
)

CONNECTION: dict[str, Any] = {
    "session": 3,
    "connection": "10.0.0.7:4711-10.0.0.1:5673",
    "connected_at": 0.0,
    "state": "open",
    "user": "guest",
    "vhost": "/",
    "name": "",
    "product": "pika",
    "protocol": "0-9-1",
    "upstream": "rabbit:5672",
    "tls": True,
    "blocked": False,
    "channels": 2,
    "consumers": 1,
    "bytes": {"client": 1234, "server": 12},
}


def test_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("amqproxy.control.tables.time.time", lambda: now)
    entries = [
        CONNECTION | {"connected_at": now - 7300},
        CONNECTION | {"session": 12, "name": "bad\x1b[31m", "blocked": True, "tls": False, "connected_at": now - 5},
    ]
    assert list(table(CONNECTIONS, entries)) == [
        "SESSION  CLIENT         USER   VHOST  NAME             PRODUCT  AMQP   UPSTREAM     STATE    TLS  CHANNELS  "
        "CONSUMERS  FROM CLIENT  FROM SERVER  AGE",
        "      3  10.0.0.7:4711  guest  /                       pika     0-9-1  rabbit:5672  open     yes         2  "
        "        1      1.23 kB         12 B  2 h",
        '     12  10.0.0.7:4711  guest  /      "bad\\u001b[31m"  pika     0-9-1  rabbit:5672  blocked              2  '
        "        1      1.23 kB         12 B  5 s",
    ]


CHANNEL: dict[str, Any] = {
    "session": 3,
    "channel": 1,
    "user": "guest",
    "vhost": "/",
    "name": "",
    "state": "open",
    "mode": "confirm",
    "prefetch": 5,
    "global_prefetch": 0,
    "consumers": 1,
    "messages": {"client": 12, "server": 0},
    "open_content": {"client": "basic.publish", "server": None},
}


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell]


def test_channels() -> None:
    heading, line = table(CHANNELS, [CHANNEL])
    assert cells(heading)[-4:] == ["FROM CLIENT", "FROM SERVER", "OPEN CONTENT", " SESSION NAME"]
    assert line.split() == ["3", "1", "guest", "/", "open", "confirm", "5", "0", "1", "12", "0", "basic.publish"]
    _, line = table(CHANNELS, [CHANNEL | {"unacked": 7, "unconfirmed": 0}])
    assert line.split()[9:11] == ["7", "0"]
    _, line = table(CHANNELS, [CHANNEL | {"session_name": "s1"}])
    assert line.endswith("basic.publish  s1")


def test_consumers() -> None:
    entry = {"session": 3, "channel": 1, "user": "guest", "vhost": "/", "name": "", "queue": None, "consumer_tag": "t"}
    entry |= {"no_ack": True, "exclusive": None, "prefetch": None, "arguments": {"x-priority": 5}}
    _, line = table(CONSUMERS, [entry])
    assert line.split() == ["3", "1", "guest", "/", "t", "yes", '{"x-priority":', "5}"]


def test_topology() -> None:
    by = {"session": 3, "user": "guest", "client": "10.0.0.7:4711"}
    common = {"vhost": "/", "state": "declared", "declared_by": by}
    entries = [
        common | {"kind": "exchange", "name": "x", "type": "topic", "durable": True, "arguments": {}},
        common
        | {"kind": "queue", "name": "", "durable": False, "arguments": None, "consumers": 0, "declared_by": None},
        common
        | {"kind": "queue", "name": "q", "durable": True, "exclusive": True, "consumers": 2}
        | {"arguments": {"x-queue-type": "quorum"}, "deleted_for": "exclusive", "deleted_by": by | {"session": 4}},
        common | {"kind": "binding", "source": "x", "destination": "q", "routing_key": "a b", "arguments": {}},
        {"kind": "consumer", "vhost": "/", "queue": "q", "consumer_tag": "t", "no_ack": True, "arguments": {}}
        | {"user": "guest", "connection": "10.0.0.7:4711-10.0.0.1:5673", "session": 3},
    ]
    by_other = "guest@10.0.0.7:4711 #4"
    heading, *lines = (cells(line) for line in table(TOPOLOGY, entries))
    assert [each.strip() for each in heading[:4]] == ["KIND", "VHOST", "NAME", "TYPE, OR ROUTING KEY"]
    assert [[each.strip() for each in line] for line in lines] == [
        ["exchange", "/", "x", "topic durable", "declared", "guest@10.0.0.7:4711 #3"],
        ["queue", "/", "declared", "0"],
        ["queue", "/", "q", "quorum durable exclusive", "exclusive", "2", '{"x-queue-type": "quorum"}', by_other],
        ["binding", "/", "x → q", "a b", "declared", "guest@10.0.0.7:4711 #3"],
        ["consumer", "/", "q → t", "no_ack", "guest@10.0.0.7:4711 #3"],
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
    [(None, ""), (False, ""), (True, "yes"), ("", ""), ({}, ""), (0, "0"), ("a b", "a b"), ({"x": 1}, '{"x": 1}')],
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


@pytest.mark.parametrize(
    ("renewals", "text"),
    [(None, ""), ({"renewed": 3, "failed": 0}, "3"), ({"renewed": 3, "failed": 2}, "3 (2 failed)")],
)
def test_renewals_of_tokens(renewals: dict[str, int] | None, text: str) -> None:
    [column] = [each for each in UPSTREAMS if each.heading == "tokens"]
    assert column.text(column.value({"token_renewals": renewals})) == text
