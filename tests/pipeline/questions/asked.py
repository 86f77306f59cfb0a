"""Tables made by hand, and what each question is answered on them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.span import Span, span
from amqproxy.pipeline.schema import TABLES
from tests.pipeline.rows import DAY, SECOND, Row, at, row

MS = 1_000_000
END = at("2026-11-16 00:00")
WEEK = 7 * DAY
NOW = END - DAY
BEFORE = END - WEEK - DAY
A, B = "a" * 16, "b" * 16
FROM_SHOP = "10.0.0.1:1-b:5672"
SHOP = {"user": "shop", "client": "shop-web", "virtual_host": "/", "connection_id": A, "connection": FROM_SHOP}
MAIL = {"user": "mail", "client": "mailer", "virtual_host": "/", "connection_id": B, "connection": "10.0.0.2:1-b:5672"}
SENT = {"exchange": "orders", "routing_key": "new", "size": 100, "outcome": "confirmed", "channel": 1, "epoch": 1}


def message(ts_ns: int, **values: Any) -> Row:
    return row("messages", ts_ns, **{**SHOP, **SENT, **values})


def delivery(ts_ns: int, **values: Any) -> Row:
    usual = {"exchange": "orders", "routing_key": "new", "queue": "orders", "kind": "deliver", "outcome": "acked"}
    return row("deliveries", ts_ns, **{**MAIL, **usual, "redelivered": False, "channel": 1, **values})


def request(ts_ns: int, method: str, **values: Any) -> Row:
    return row("requests", ts_ns, **{**SHOP, "method": method, "outcome": "answered", **values})


def minute(ts_ns: int, by: str, name: str | None, **values: Any) -> Row:
    counts = ("published", "published_bytes", "delivered", "delivered_bytes", "errors")
    return row("rollup_minute", ts_ns, by=by, name=name, virtual_host="/", **{**dict.fromkeys(counts, 0), **values})


def field(ts_ns: int, path: str, kind: str, count: int, **values: Any) -> Row:
    return row("fields", ts_ns, **{**SHOP, "exchange": "orders", "path": path, "kind": kind, "count": count, **values})


LOST = {"digest": "d1", "message_id": "m1"}
POISON = {**LOST, "outcome": "rejected", "requeue": False, "published_connection_id": A}
QOS = 'basic.qos is asked for by "pika 1.3" (user "shop"): RabbitMQ 4.3 takes it for each consumer'
MODE = 'queue made by us is declared by "bunny": RabbitMQ 4.3 ignores it'
FRAMES = 'frame_max 4096 is asked for by "amqplib 0.10" (user "mail"): RabbitMQ 4.3 cuts it'
MADE: dict[str, list[Row]] = {
    "messages": [
        *(message(NOW + each, number=each + 1, latency_ns=(each + 1) * MS) for each in range(30)),
        message(NOW + SECOND, number=31, latency_ns=900 * MS, outcome="nacked", size=5000, **LOST),
        message(NOW, number=32, exchange="void", routing_key="x", route="returned", return_code=312),
        message(NOW, number=33, exchange="", routing_key="unread", outcome="sent", delivery_mode=2, size=None),
        message(NOW + 1, number=34, exchange="", routing_key="unread", outcome="sent", delivery_mode=1),
        row("messages", NOW, **{**MAIL, **SENT, "routing_key": "copy", "number": 1, "size": 9}),
        message(BEFORE, number=1),  # not last week
    ],
    "deliveries": [
        *(delivery(NOW + each, latency_ns=40 * MS, transit_ns=each * MS, published_ns=NOW + each - (each - 3) * MS,
                   published_among=1 + each % 2) for each in range(21)),
        *(delivery(BEFORE + each, latency_ns=10 * MS) for each in range(20)),
        *(delivery(each + start, queue="quick", latency_ns=MS) for start in (NOW, BEFORE) for each in range(20)),
        delivery(NOW + 2 * SECOND, published_channel=1, published_epoch=1, published_number=31, **POISON),
        delivery(NOW + 3 * SECOND, redelivered=True, redelivery_count=1, outcome="nacked", requeue=True),
        delivery(NOW + 4 * SECOND, redelivered=True, redelivery_count=2, outcome="open", digest="d2"),
        delivery(BEFORE, queue="asleep"),
    ],
    "clocks": [
        row("clocks", NOW, chain="a", offset_ns=0, pairs=7),
        row("clocks", NOW, chain="b", offset_ns=-2 * SECOND, pairs=7),
        row("clocks", NOW + 3600 * SECOND, chain="b", offset_ns=0, pairs=3),
        row("clocks", BEFORE, chain="a", offset_ns=SECOND, pairs=1),
    ],
    "requests": [
        request(NOW, "queue.declare", queue="asleep"),
        request(NOW, "queue.declare", queue="orders", reply_arguments='{"queue": "orders", "message_count": 7}'),
        request(BEFORE, "queue.bind", queue="asleep", exchange="orders", routing_key="copy"),
        row("requests", NOW, **MAIL, method="basic.consume", queue="orders", outcome="answered"),
        row("requests", BEFORE, **MAIL, method="basic.consume", queue="asleep", outcome="answered"),  # and then left
        *(request(NOW, "queue.declare", queue=queue) for queue in ("kept", "subscribed", "polled")),
        request(NOW, "basic.get", queue="polled", reply="basic.get-empty"),
        request(NOW, "queue.declare", queue="hidden", virtual_host="joined"),  # where a client may consume unseen
        request(BEFORE, "basic.consume", queue="kept", outcome="kept"),  # of a client that is still there
        request(NOW, "message.subscribe", queue="subscribed"),
        request(NOW, "queue.declare", queue="abandoned", outcome="kept"),
    ],
    "connections": [
        row("connections", NOW, **SHOP, closed_ns=NOW + SECOND, code=200, published=3, delivered=0, product="pika",
            version="1.3", platform="Python", mechanism="PLAIN", heartbeat=60, protocol="0-9-1", knows_consumers=True),
        row("connections", BEFORE, **SHOP, published=5, delivered=0, is_open=True, product="pika", version="1.2",
            platform="Python", mechanism="PLAIN", heartbeat=0, protocol="0-9-1"),
        row("connections", BEFORE, **MAIL, closed_ns=BEFORE + 1, published=0, delivered=0, product="bunny"),
        row("connections", BEFORE, connection_id="c" * 16, virtual_host="joined", closed_ns=NOW, published=0,
            delivered=0, is_open=True, knows_consumers=False),
    ],
    "errors": [
        *(row("errors", NOW + each, **MAIL, kind="channel-closed", code=404, text="NOT_FOUND") for each in range(3)),
        row("errors", NOW, **SHOP, kind="returned", code=312, text="NO_ROUTE"),
        *(row("errors", NOW + each, connection_id="c" * 16, connection=f"10.0.0.9:{each} → b:5672", user="guest",
              kind="login-refused", code=403, text="ACCESS_REFUSED") for each in range(2)),
        row("errors", NOW, connection_id="d" * 16, connection="[::1]:9-[::1]:5672", kind="login-cut", text="cut"),
    ],
    "fields": [
        field(NOW - 3 * DAY, "$", "object", 3),
        field(NOW - 3 * DAY, "$.rare", "object", 3),
        field(NOW - 2 * DAY, "$", "object", 40),
        field(NOW - 2 * DAY, "$", "not inspected", 1000),
        field(NOW - 2 * DAY, "$.id", "integer", 40),
        field(NOW - 2 * DAY, "$.old", "string", 10),
        field(NOW - 2 * DAY, "$.price", "integer", 40),
        field(NOW - 2 * DAY, "$.same", "null", 10),
        *(field(NOW + each, "$", "object", 25) for each in range(2)),
        *(field(NOW, "$.id", kind, count) for kind, count in (("integer", 45), ("string", 5), ("null", 5))),
        field(NOW, "$.new", "string", 50),
        field(NOW, "$.new", "string", 50, holds="e-mail"),
        field(NOW, "$.price", "integer", 30),
        field(NOW, "$.price", "number", 20),
        field(NOW, "$.same", "null", 10),
        field(NOW, "$", "text", 1, queue="q"),
        field(NOW, "$", "text", 1, queue="q", holds="token"),
    ],
    "findings": [
        row("findings", NOW, **MAIL, kind="auto-ack", severity="warning", text="t", count=1, remedy="r"),
        row("findings", NOW, **SHOP, kind="unknown-ack", severity="error", text="u", count=1, remedy="s"),
        *(row("findings", ts_ns, **SHOP, kind="rabbitmq4-global-qos", severity="info", text=QOS, count=n, remedy="q")
          for ts_ns, n in ((NOW, 1), (NOW + SECOND, 10), (BEFORE - 30 * DAY, 100))),
        row("findings", NOW, **MAIL, kind="rabbitmq4-queue-mode", severity="info", text=MODE, count=None, remedy="m"),
        row("findings", BEFORE, **MAIL, kind="rabbitmq4-frame-max", severity="info", text=FRAMES, count=1, remedy="f"),
    ],
    "rollup_minute": [
        minute(NOW, "user", "shop", published=10, published_bytes=1000),
        minute(NOW, "user", "mail", delivered=10, delivered_bytes=3000, errors=1),
        minute(NOW, "exchange", "orders", published=10),
        minute(NOW, "queue", "new", delivered=4),
        minute(NOW, "connection", A, published=10),
        minute(NOW - DAY, "exchange", "orders", published=10),
        minute(NOW - DAY, "user", "shop", published=2, published_bytes=200),
        minute(NOW - DAY, "user", "gone", published=1),
        minute(NOW, "all", None, published=15, published_bytes=1500, delivered=10, delivered_bytes=3000),
        minute(NOW - DAY, "all", None, published=3, published_bytes=200),
    ],
}  # fmt: skip

MIDNIGHT = datetime(2026, 11, 15, tzinfo=UTC).replace(tzinfo=None)
DAYS = {"start_ns": NOW, "end_ns": END}
ASKED: list[tuple[str, dict[str, Any], dict[str, int], list[dict[str, Any]]]] = [
    ("dependencies", {}, {}, [
        {"publisher": None, "exchange": "orders", "routing_key": "new", "queue": "orders", "consumer": "mail",
         "published": None, "delivered": 23, "refused": 1, "per_second": 0.192, "p99_ns": 20 * MS},
        {"publisher": None, "queue": "quick", "delivered": 20, "p99_ns": None},
        {"publisher": "shop", "exchange": "", "routing_key": "unread", "queue": None, "published": 2, "delivered": 0},
        {"publisher": "mail", "routing_key": "copy", "published": 1, "failed": 0, "delivered": 0},
        {"publisher": "shop", "publisher_client": "shop-web", "queue": "orders", "consumer_client": "mailer",
         "published": 31, "failed": 1, "delivered": 1, "refused": 1},
        {"publisher": "shop", "exchange": "void", "published": 1, "failed": 1},
    ]),
    ("dependencies", {"by": "exchange"}, {}, [
        {"publisher": None, "routing_key": None, "queue": "orders"}, {"queue": "quick"},
        {"publisher": "shop", "exchange": "", "published": 2}, {"publisher": "mail", "exchange": "orders"},
        {"publisher": "shop", "exchange": "orders", "delivered": 1}, {"exchange": "void"},
    ]),
    ("objectives", {}, {}, [
        {"what": "confirm", "exchange": "orders", "queue": None, "hour": None, "messages": 31, "missed": 1,
         "met_share": 0.967742, "budget_left_share": -31.2581, "burn_rate": 32.26, "last_burn_rate": 32.26,
         "worst_burn_rate": 32.26, "worst_hour": MIDNIGHT},
        {"what": "delivery", "queue": "orders", "messages": 21, "missed": 0, "met_share": 1.0, "budget_left_share": 1.0,
         "burn_rate": 0.0, "worst_burn_rate": 0.0, "worst_hour": None},
    ]),
    ("objectives", {"objective": "50", "confirm_ms": "20", "delivery_ms": "14.5", "by": "hour"}, {}, [
        {"what": "confirm", "hour": MIDNIGHT, "missed": 11, "budget_left_share": 0.2903},
        {"what": "delivery", "messages": 21, "missed": 6, "burn_rate": 0.57, "budget_left_share": 0.4286},
    ]),
    ("queue-depth", {}, {}, [
        {"queue": "asleep", "waiting": 31, "waiting_least": 31, "bytes": 3009, "oldest_age_ns": 4 * SECOND,
         "unsettled": 0, "declared": None},
        {"queue": "orders", "waiting": 30, "waiting_least": 9, "unsettled": 1, "delivered_unlinked": 21, "declared": 7},
        {"queue": "quick", "waiting": 30, "waiting_least": 10, "unsettled": 0},
        {"queue": "unread", "waiting": 2, "bytes": 100},
    ]),
    ("failed-logins", {}, {}, [
        {"address": "10.0.0.9", "user": "guest", "code": 403, "text": "ACCESS_REFUSED", "times": 2, "opened": 0},
        {"address": "[::1]", "user": None, "text": "cut", "times": 1},
    ]),
    ("schema-drift", {}, {}, [
        {"day": MIDNIGHT, "exchange": "orders", "queue": None, "path": "$.id", "change": "type changed",
         "type_before": "integer", "type_now": "string or integer", "had_before_share": 1.0, "had_now_share": 1.0},
        {"path": "$.new", "change": "new", "type_before": None, "type_now": "string", "had_before_share": 0.0},
        {"path": "$.old", "change": "gone", "type_before": "string", "type_now": None, "had_before_share": 0.25},
        {"path": "$.price", "change": "type changed", "type_before": "integer", "type_now": "integer or number"},
    ]),
    ("schema-drift", {"least": "41"}, {}, []),
    ("personal-data", {}, {}, [
        {"exchange": "orders", "queue": None, "path": "$.new", "holds": "e-mail", "messages": 50, "share": 0.5376},
        {"exchange": "orders", "queue": "q", "path": "$", "holds": "token", "messages": 1, "share": 1.0},
    ]),
    ("publishers", {"exchange": "orders"}, {}, [
        {"user": "shop", "client": "shop-web", "messages": 31, "bytes": 8000, "connections": 1, "nacked": 1},
        {"user": "mail", "messages": 1, "bytes": 9},
    ]),
    ("publishers", {"exchange": "", "routing_key": "unread"}, {}, [{"user": "shop", "messages": 2, "bytes": 100}]),
    ("queue-users", {"queue": "polled"}, {}, [
        {"queue": "polled", "act": "declare", "user": "shop", "times": 1},
        {"act": "get of an empty queue", "user": "shop", "times": 1},
    ]),
    ("queue-users", {"queue": "orders"}, {}, [
        {"queue": "orders", "act": "consume", "user": "mail", "times": 24},
        {"act": "declare", "user": "shop", "times": 1},
        {"act": "start consumer", "user": "mail", "times": 1},
    ]),
    ("unread-queues", {}, {}, [
        {"queue": "unread", "received": 2, "bytes": 100, "last_read": None},
        {"queue": "asleep", "received": 1, "bytes": 9},
        {"queue": "abandoned", "received": 0},
    ]),
    ("slower-consumers", {}, {}, [
        {"queue": "orders", "user": "mail", "median_before_ns": 10 * MS, "median_now_ns": 40 * MS, "times_slower": 4.0,
         "slower_by_ns": 30 * MS, "acked": 21},
    ]),
    ("slow-confirms", {"exchange": "orders"}, {}, [
        {"latency_ns": 900 * MS, "outcome": "nacked", "number": 31, "connection": FROM_SHOP},
        *({"latency_ns": each * MS, "number": each} for each in range(30, 11, -1)),
    ]),
    ("transit", {}, {}, [{"exchange": "orders", "queue": "orders", "messages": 21, "median_ns": 10 * MS,
                          "p99_ns": 20 * MS, "longest_ns": 20 * MS, "most_corrected_ns": 3 * MS, "unsure": 10}]),
    ("clocks", {}, {}, [
        {"chain": "b", "least_ahead_ns": -2 * SECOND, "most_ahead_ns": 0, "hours_corrected": 1, "hours": 2,
         "messages": 10},
        {"chain": "a", "least_ahead_ns": 0, "most_ahead_ns": 0, "hours_corrected": 0, "hours": 1, "messages": 7},
    ]),
    ("changes", {}, DAYS, [
        {"what": "client version", "name": "bunny", "change": "new", "published_now": 1, "delivered_now": 44,
         "errors_now": 3},
        {"what": "user", "name": "mail", "change": "new", "delivered_now": 10, "errors_now": 1},
        {"what": "queue", "name": "new", "change": "new", "delivered_before": 0, "delivered_now": 4},
        {"what": "user", "name": "gone", "change": "gone", "published_before": 1, "published_now": 0},
        {"what": "client version", "name": "pika 1.3", "change": "changed", "published_before": 0, "published_now": 34},
        {"what": "user", "name": "shop", "change": "changed", "published_before": 2, "published_now": 10},
    ]),
    ("capacity", {"by": "user"}, {}, [
        {"user": "mail", "virtual_host": "/", "delivered": 10, "bytes": 3000, "share": 0.6383},
        {"user": "shop", "published": 12, "published_bytes": 1200, "bytes": 1200, "share": 0.2553},
        {"user": None, "virtual_host": "/", "published": 5, "delivered": 0, "bytes": 500, "share": 0.1064},
        {"user": "gone", "published": 1, "bytes": 0},
    ]),
    ("capacity", {}, {}, [{"virtual_host": "/", "user": None, "published": 18, "delivered": 10, "bytes": 4700}]),
    ("poison", {}, {}, [
        {"publisher": None, "queue": "orders", "consumer": "mail", "refused": 0, "most_deliveries": 3, "example": "d2"},
        {"publisher": "shop", "publisher_client": "shop-web", "refused": 1, "messages": 1, "example": "d1"},
    ]),
    ("redeliveries", {}, {}, [
        {"queue": "orders", "deliveries": 24, "redelivered": 2, "share": 0.0833, "acked": 21, "requeued": 1,
         "refused": 1, "left_open": 1},
    ]),
    ("unroutable", {}, {}, [{"exchange": "void", "routing_key": "x", "user": "shop", "code": 312, "messages": 1}]),
    ("unconfirmed", {}, {}, [{"exchange": "", "user": "shop", "messages": 1, "connections": 1}]),
    ("large-messages", {"least": 10}, {}, [
        {"exchange": "orders", "user": "shop", "largest_bytes": 5000, "median_bytes": 100, "bytes": 8000},
        {"exchange": "", "largest_bytes": 100},
        {"exchange": "void", "largest_bytes": 100},
    ]),
    ("message", {"message_id": "m1"}, {}, [
        {"step": "publish", "user": "shop", "outcome": "nacked", "queue": None},
        {"step": "deliver", "user": "mail", "outcome": "rejected", "queue": "orders"},
    ]),
    ("errors", {}, {}, [
        {"kind": "channel-closed", "code": 404, "user": "mail", "times": 3, "connections": 1},
        {"kind": "login-refused", "user": "guest", "times": 2},
        {"kind": "login-cut", "times": 1},
        {"kind": "returned", "user": "shop", "times": 1},
    ]),
    ("findings", {}, {}, [
        {"severity": "error", "kind": "unknown-ack", "user": "shop", "times": 1, "example": "u", "remedy": "s"},
        {"severity": "warning", "kind": "auto-ack", "user": "mail"},
        {"severity": "info", "kind": "rabbitmq4-global-qos", "times": 2},
        {"severity": "info", "kind": "rabbitmq4-queue-mode", "times": 1},
    ]),
    ("upgrade", {}, {}, [
        {"level": "breaks", "kind": "rabbitmq4-frame-max", "user": "mail", "client": "mailer",
         "product": "amqplib 0.10", "use": "frame_max 4096 is asked for", "effect": "cuts it", "times": 1, "rule": True,
         "remedy": "f", "evidence": "10.0.0.2:1-b:5672"},
        {"level": "changes", "kind": "rabbitmq4-global-qos", "product": "pika 1.3", "times": 10, "connections": 1},
        {"level": "changes", "kind": "rabbitmq4-queue-mode", "product": "bunny", "use": "queue made by us is declared",
         "times": 1, "rule": False},
    ]),
    ("churn", {}, {}, [
        {"user": "shop", "connections": 2, "median_lifetime_ns": SECOND, "messages_each": 4.0},
        {"user": None, "virtual_host": "joined", "connections": 1, "median_lifetime_ns": NOW - BEFORE},
    ]),
    ("clients", {}, {}, [
        {"protocol": None, "product": None, "user": None, "connections": 1},
        {"protocol": "0-9-1", "product": "pika", "version": "1.2", "connections": 1, "least_heartbeat": 0},
        {"protocol": "0-9-1", "product": "pika", "version": "1.3", "user": "shop", "least_heartbeat": 60},
    ]),
]  # fmt: skip


def span_of(name: str, times: dict[str, int]) -> Span:
    return span(END - 1, QUESTIONS[name].seconds, **times)


def tables() -> dict[str, list[Row]]:
    return {name: MADE.get(name, []) for name in TABLES if name not in ("frames", "events")}
