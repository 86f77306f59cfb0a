"""Messages published and got on behalf of a user: bounds, and what stays in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.message import Message
from amqproxy.control.changes import message_changes
from amqproxy.control.changes.message_changes import FRAME_OVERHEAD, MOST_GOT_BYTES
from tests.control.changes.changing import NOW, Changing


def test_messages_that_cannot_be_shown_stay_in_the_queue() -> None:
    broker = Changing()
    broker.publish(b"one", b"two")
    broken = Message("", "q", bytes(12) + b"\x80\x00\xff", b"three")  # a content type that is cut short
    broker.queue.publish(broken, NOW)
    for outcome in ("ack", "reject", "requeue"):
        assert broker.refusal("get", vhost="/", queue="q", count=3, outcome=outcome) == "invalid"
        assert (broker.queue.message_count, broker.queue.unacked) == (3, 0)
    assert [each["redelivered"] for each in broker.get(2, "ack")] == [False, False]


def test_a_routing_key_that_is_not_text_is_shown_with_replacements() -> None:
    broker = Changing()
    broker.queue.publish(Message.made("", "\udcff", Properties(), b""), NOW)
    [message] = broker.get(1, "ack")
    assert message["routing_key"] == "\ufffd"


def test_a_message_too_long_for_a_response_stays_unless_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_changes, "MOST_ANSWERED", 2000)
    broker = Changing()
    broker.publish(b"x" * 1000, b"y" * 1000)
    assert len(broker.get(2, "ack")) == 1
    broker.publish(b"z" * 3000)
    assert len(broker.get(2, "ack")) == 1
    assert broker.refusal("get", vhost="/", queue="q", count=1, outcome="ack") == "invalid"
    [message] = broker.get(1, "ack", truncate=2)
    assert (message["payload_bytes"], message["redelivered"]) == (3000, False)


def test_headers_count_in_what_one_request_gets() -> None:
    broker = Changing()
    headers = Table({"h": "x" * (MOST_GOT_BYTES // 64)})
    for _ in range(70):
        broker.queue.publish(Message.made("", "q", Properties(headers=headers), b""), NOW)
    assert len(broker.get(70, "ack")) == 64


def test_bodies_read_from_the_disk_count_even_if_they_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Message.made("", "q", Properties(), b"x" * (MOST_GOT_BYTES // 4))
    monkeypatch.setattr(message_changes, "whole", lambda entry: stored)
    broker = Changing()
    broker.publish(*[b""] * 9)
    assert len(broker.get(9, "requeue", truncate=0)) == 4


KEYS = {"vhost": "/", "exchange": "", "routing_key": "q", "body": ""}


@pytest.mark.parametrize(
    "changed",
    [
        {"exchange": "amq.fanout", "routing_key": "k" * 256},
        {"exchange": "amq.fanout", "routing_key": "\u00e9" * 128},
        {"properties": {"message_id": "\u00e9" * 128}},
        {"properties": {"headers": {"h": "x" * 131_072}}},
        {"properties": {"headers": {str(number): 0 for number in range(20_000)}}},
    ],
)
def test_what_consumers_could_not_be_sent_is_not_published(changed: dict[str, Any]) -> None:
    broker = Changing()
    broker.change("bind", vhost="/", source="amq.fanout", destination_type="queue", destination="q")
    assert broker.refusal("publish", **{**KEYS, **changed}) == "invalid"
    assert broker.queue.message_count == 0


def test_the_longest_headers_are_delivered() -> None:
    broker = Changing()
    most = broker.broker.frame_max - FRAME_OVERHEAD
    header = Message.made("", "q", Properties(headers=Table({"h": ""})), b"").header
    broker.change("publish", **KEYS, properties={"headers": {"h": "x" * (most - len(header))}})
    assert broker.queue.message_count == 1
    assert broker.refusal("publish", **KEYS, properties={"headers": {"h": "x" * (most - len(header) + 1)}}) == "invalid"


def test_a_publish_that_a_full_queue_rejects_is_refused() -> None:
    broker = Changing()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    broker.change("declare-queue", vhost="/", name="full", arguments=arguments)
    broker.publish(b"taken", queue="full")
    assert broker.refusal("publish", **{**KEYS, "routing_key": "full"}) == "rejected"
