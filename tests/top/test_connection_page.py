"""The page of one connection."""

from __future__ import annotations

from typing import Any

from amqproxy.top.connection_page import connection_page
from amqproxy.top.views import VIEWS
from tests.top.fake_source import connection

CHANNEL: dict[str, Any] = {
    "session": 3,
    "channel": 1,
    "user": "alice",
    "vhost": "/",
    "name": "orders",
    "state": "open",
    "mode": "confirm",
    "prefetch": 5,
    "global_prefetch": 0,
    "consumers": 1,
    "unacked": 2,
    "unconfirmed": 4,
    "messages": {"client": 1, "server": 2},
    "open_content": {"client": None, "server": None},
}
CONSUMER: dict[str, Any] = {
    "session": 3,
    "channel": 1,
    "queue": "q",
    "consumer_tag": "ctag1",
    "no_ack": True,
    "exclusive": False,
    "prefetch": 5,
    "arguments": {"x-priority": 3},
}


def page(entry: dict[str, Any], channels: list[dict[str, Any]], consumers: list[dict[str, Any]]) -> list[str]:
    before = [entry | {"bytes": {"client": 0, "server": 0}}]
    [rated] = VIEWS[0].entries(before, [entry], 2.0)
    return connection_page(rated, VIEWS[1].entries([], channels, 1.0), consumers, 7200.0).splitlines()


def test_what_is_known_of_a_connection() -> None:
    limits = {"channel_max": 2047, "frame_max": 4096, "heartbeat": 60}
    entry = connection(3, "alice", name="orders", protocol="1-2-3", relayed_by="pump", tls=True, tls_subject="CN=a")
    assert page(entry | limits, [CHANNEL], [CONSUMER]) == [
        "Connection 3",
        "",
        "name        orders",
        "client      10.0.0.3:4711 → 10.0.0.1:5673",
        "user        alice, virtual host /",
        "product     pika",
        "state       open for 2 h",
        "relayed by  pump",
        "TLS         CN=a",
        "AMQP        1-2-3  channel_max 2047  frame_max 4096  heartbeat 60",
        "bytes       from client 3 kB (1.5 kB/s), from server 0 B (0 B/s)",
        "",
        "Channels",
        "CHANNEL  STATE  MODE     UNACKED  UNCONFIRMED  PREFETCH  CLIENT/S  SERVER/S  GLOBAL  CONSUMERS  FROM CLIENT"
        "  FROM SERVER  OPEN CONTENT  SESSION NAME",
        "      1  open   confirm        2            4         5                           0          1            1"
        "            2",
        "",
        "Consumers",
        "CHANNEL  QUEUE  CONSUMER TAG  PREFETCH  NO ACK  EXCLUSIVE  ARGUMENTS",
        '      1  q      ctag1                5  yes                {"x-priority": 3}',
    ]


def test_what_is_not_known_is_left_out() -> None:
    lines = page(connection(3, blocked=True), [], [])
    assert "state       blocked for 2 h" in lines
    assert not [line for line in lines if line.startswith(("TLS", "name", "AMQP", "relayed"))]
    assert lines[-3:] == ["No channels", "", "No consumers"]
