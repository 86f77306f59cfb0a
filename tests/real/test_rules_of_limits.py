"""Limits in front of RabbitMQ, with a real client that comes up against them."""

from __future__ import annotations

import time
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real


@pytest.fixture
def limited(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> Any:
    """amqproxy in front of RabbitMQ with one limit."""

    def start(**keys: Any) -> Proxy:
        return start_proxy(rabbitmq.port, rules=[{"name": "limited", "action": "limit"} | keys])

    return start


def test_a_rate_holds_and_nothing_is_lost(limited: Any) -> None:
    with connected(limited(of="messages", rate=100, burst=10)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        start = time.monotonic()
        for number in range(60):
            channel.basic_publish("", queue, str(number).encode())
        assert 0.5 <= time.monotonic() - start < 5
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(60)]
        assert bodies == [str(number).encode() for number in range(60)]


def test_a_rate_that_is_refused_is_nacked(limited: Any) -> None:
    with connected(limited(of="messages", rate=0.1, burst=3, act="refuse")) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", queue, b"x")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", queue, b"x")
        assert channel.queue_declare(queue, passive=True).method.message_count == 3


def test_a_client_is_blocked_and_unblocked(limited: Any) -> None:
    with connected(
        limited(of="messages", rate=10, burst=2, act="block", match={"exchange": "amq.fanout"})
    ) as connection:
        received: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: received.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: received.append("unblocked"))
        channel = connection.channel()
        for _ in range(4):
            channel.basic_publish("amq.fanout", "", b"x")

        def both() -> bool:
            connection.process_data_events(0.05)
            return received[:2] == ["blocked", "unblocked"]

        until(both, "the client to receive both")


def test_connections_channels_and_consumers_are_given_back(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    most = {"connections": 2, "channels": 2, "consumers": 1}
    rules = [{"name": of, "action": "limit", "of": of, "most": count, "per": "user"} for of, count in most.items()]
    proxy = start_proxy(rabbitmq.port, rules=rules)
    for _ in range(3):
        with connected(proxy) as one, connected(proxy) as other:
            with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="limit of 2 connections is reached"):
                BlockingConnection(pika.ConnectionParameters("127.0.0.1", proxy.port))
            channel = one.channel()
            channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
            second = other.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                other.channel()
            assert closed.value.reply_code == 506
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                second.basic_consume(second.queue_declare("", exclusive=True).method.queue, lambda *_: None)
            assert closed.value.reply_code == 506
            channel.close()
            third = other.channel()
            third.basic_consume(third.queue_declare("", exclusive=True).method.queue, lambda *_: None)
        until(lambda: proxy.sockets() == 0, "the connections to be gone")


def test_queues(limited: Any) -> None:
    with connected(limited(of="queues", most=2, per="vhost")) as connection:
        channel = connection.channel()
        first = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(2):
            channel.queue_declare("test_queues", exclusive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.queue_declare("", exclusive=True)
        assert closed.value.reply_code == 506
        channel = connection.channel()
        channel.queue_delete(first)
        channel.queue_declare("", exclusive=True)


def test_message_size(limited: Any) -> None:
    with connected(limited(of="message_size", most="1KiB")) as connection:
        channel, other = connection.channel(), connection.channel()
        queue = other.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, bytes(1024))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish("", queue, bytes(300_000))
        assert closed.value.args == (
            406,
            "PRECONDITION_FAILED - message size 300000 is larger than configured max size 1024",
        )
        assert len(other.basic_get(queue)[2]) == 1024
        assert other.basic_get(queue) == (None, None, None)


@pytest.mark.parametrize("of", ["prefetch", "unacked"])
def test_no_more_is_delivered_than_may_be_unacknowledged(limited: Any, of: str) -> None:
    with connected(limited(of=of, most=3)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(10):
            channel.basic_publish("", queue, b"x")
        tags: list[int] = []
        channel.basic_consume(queue, lambda _, method, *__: tags.append(method.delivery_tag))

        def delivered(count: int) -> None:
            def has_come() -> bool:
                connection.process_data_events(0.05)
                return len(tags) >= count

            until(has_come, f"{count} deliveries")
            connection.process_data_events(0.2)
            assert len(tags) == count

        delivered(3)
        channel.basic_ack(tags[-1], multiple=True)
        delivered(6)


def test_who_has_too_many_unacknowledged_gets_no_more(limited: Any) -> None:
    with connected(limited(of="unacked", most=3, act="refuse")) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(10):
            channel.basic_publish("", queue, b"x")
        for _ in range(2):
            tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
            channel.basic_ack(tags[-1], multiple=True)
        for _ in range(3):
            channel.basic_get(queue)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="more than 3 unacknowledged"):
            channel.basic_get(queue)
        channel = connection.channel()
        delivered = []

        def consume() -> None:
            channel.basic_consume(queue, lambda *arguments: delivered.append(arguments[3]))
            channel.start_consuming()

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="more than 3 unacknowledged"):
            consume()
        assert len(delivered) <= 3
