"""What happened to messages, as lines."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_text import RED, RESET, YELLOW, duration, message_line

WHERE: dict[str, Any] = {"ts_ns": 3_723_000_004_000, "stream": 7, "connection": "a:1-b:2"}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "publish",
                "outcome": "confirmed",
                "seconds": 0.00031,
                "number": 4,
                "confirm_tag": 3,
                "exchange": "orders",
                "routing_key": "eu new",
                "mandatory": True,
                "size": 12,
                "properties": {"type": "t", "headers": {"a": 1}},
                "body": "hello",
            },
            '→ ch 1    publish  tag=3 exchange=orders routing_key="eu new" mandatory 12 bytes '
            'type=t headers={"a": 1} body=hello  ⇒ confirmed, 310 µs',
        ),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "publish",
                "outcome": "nacked",
                "exchange": "",
                "routing_key": "k",
                "size": 0,
                "code": 312,
                "reason": "NO_ROUTE",
            },
            "→ ch 1    publish  routing_key=k 0 bytes  ⇒ returned 312 NO_ROUTE, nacked",
        ),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "request",
                "outcome": "answered",
                "method": "execution.sync",
                "arguments": {},
                "reply": "session.completed",
                "reply_arguments": {"commands": [[0, 3], [6, 6]]},
            },
            "→ ch 1    execution.sync  ⇒ session.completed commands=0-3,6",
        ),
        (
            {
                "sender": "server",
                "channel": 2,
                "type": "deliver",
                "outcome": "rejected",
                "requeue": False,
                "seconds": 2.5,
                "delivery_tag": 9,
                "consumer_tag": "c",
                "queue": "q",
                "redelivered": True,
                "size": 1,
            },
            "← ch 2    deliver  tag=9 queue=q consumer_tag=c redelivered 1 bytes  ⇒ rejected (not requeued), 2.5 s",
        ),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "request",
                "outcome": "answered",
                "method": "queue.declare",
                "arguments": {"queue": "q", "durable": True, "passive": False, "arguments": {}},
                "reply": "queue.declare-ok",
                "reply_arguments": {"queue": "q", "message_count": 0},
                "seconds": 0.0012,
            },
            "→ ch 1    queue.declare  queue=q durable=true  ⇒ queue.declare-ok queue=q message_count=0, 1.2 ms",
        ),
        (
            {"sender": "client", "channel": 1, "type": "request", "outcome": "unanswered", "method": "tx.commit"},
            "→ ch 1    tx.commit  ⇒ unanswered",
        ),
        (
            {"sender": "client", "channel": 1, "type": "request", "outcome": "answered", "reply": "tx.commit-ok"},
            "→ ch 1    a request that was not seen  ⇒ tx.commit-ok",
        ),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "request",
                "outcome": "answered",
                "method": "tx.commit",
                "reply": "tx.commit-ok",
            },
            "→ ch 1    tx.commit (arguments unknown)  ⇒ tx.commit-ok",
        ),
        (
            {
                "sender": "server",
                "type": "connection",
                "outcome": "opened",
                "seconds": 0.003,
                "arguments": {
                    "virtual_host": "/",
                    "client_properties": {
                        "product": "pika",
                        "version": "1.3",
                        "capabilities": {"a": True},
                        "connection_name": "billing",
                    },
                    "server_properties": {"product": "RabbitMQ", "version": "3.10.8"},
                },
            },
            '←         connection opened, 3 ms  virtual_host=/ client="pika 1.3" connection_name=billing '
            'server="RabbitMQ 3.10.8"',
        ),
        (
            {
                "sender": "server",
                "channel": 1,
                "type": "channel",
                "outcome": "closed",
                "code": 406,
                "reason": "PRECONDITION_FAILED - unknown delivery tag 8",
                "method": "basic.ack",
                "arguments": {"delivery_tag": 8, "multiple": False},
            },
            "← ch 1    channel closed by server: 406 PRECONDITION_FAILED - unknown delivery tag 8  "
            "because of basic.ack delivery_tag=8",
        ),
        ({"type": "connection", "outcome": "closed", "reason": ""}, "·         connection closed"),
        (
            {"sender": "server", "type": "connection", "outcome": "blocked", "reason": "low on\nmemory"},
            "←         connection blocked: low on\\nmemory",
        ),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "settle",
                "outcome": "unknown tag",
                "method": "basic.nack",
                "delivery_tag": 9,
                "multiple": True,
            },
            "→ ch 1    UNKNOWN TAG: basic.nack 9 and all before names no open delivery",
        ),
        (
            {
                "sender": "client",
                "channel": 0,
                "type": "settle",
                "outcome": "unknown tag",
                "method": "message.accept",
                "delivery_tag": 9,
                "multiple": True,
            },
            "→ ch 0    UNKNOWN TAG: message.accept 9 names no open delivery",
        ),
        (
            {"sender": "server", "channel": 0, "type": "deliver", "outcome": "acked", "delivery_tag": 0},
            "← ch 0    deliver  tag=0  ⇒ acked",
        ),
        (
            {
                "sender": "server",
                "type": "deliver",
                "outcome": "acked",
                "routing_key": "k",
                "redelivered": True,
                "properties": {"redelivered": True, "routing_key": "k", "priority": 4},
            },
            "←         deliver  routing_key=k redelivered priority=4  ⇒ acked",
        ),
        (
            {"sender": "client", "channel": 0, "type": "publish", "outcome": "confirmed", "confirm_tag": 0},
            "→ ch 0    publish  tag=0  ⇒ confirmed",
        ),
        (
            {"sender": "server", "channel": 1, "type": "settle", "outcome": "unknown tag"},
            "← ch 1    UNKNOWN TAG: a confirm names no open publish",
        ),
        ({"sender": "client", "type": "error", "outcome": "unknown", "reason": "a gap"}, "→         ERROR a gap"),
        (
            {
                "sender": "client",
                "channel": 1,
                "type": "publish",
                "outcome": "sent",
                "size": 1,
                "rules": ("no guests",),
                "tags": ("slow",),
                "verdict": "refused",
            },
            '→ ch 1    publish  1 bytes  ⇒ sent  [refused by "no guests"; tags: slow]',
        ),
    ],
)
def test_a_line_each(fields: dict[str, Any], line: str) -> None:
    assert message_line(MessageRecord(**WHERE, **fields)) == f"01:02:03.000004 #7   {line}"


@pytest.mark.parametrize(
    ("fields", "colour"),
    [
        ({"type": "publish", "outcome": "confirmed", "size": 1}, ""),
        ({"type": "publish", "outcome": "nacked", "size": 1}, YELLOW),
        ({"type": "publish", "outcome": "confirmed", "size": 1, "code": 312}, YELLOW),
        ({"type": "channel", "outcome": "closed", "code": 404}, RED),
        ({"type": "channel", "outcome": "closed", "code": 200}, ""),
        ({"type": "error", "outcome": "unknown"}, RED),
        ({"type": "settle", "outcome": "unknown tag"}, RED),
    ],
)
def test_colours(fields: dict[str, Any], colour: str) -> None:
    record = MessageRecord(**WHERE, **fields)
    line = message_line(record)
    assert message_line(record, is_coloured=True) == (f"{colour}{line}{RESET}" if colour else line)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 µs"), (12.3e-6, "12.3 µs"), (0.00031, "310 µs"), (0.0031, "3.1 ms"), (61.2, "61.2 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
