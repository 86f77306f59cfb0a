"""pika, through its blocking connection."""

import datetime
import decimal
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.real.clients import BIG, CHANNELS, MESSAGES, Broker
from tests.real.poll import DEADLINE

HEADERS = {
    "bool": True,
    "int32": -(2**31),
    "int64": 2**62,
    "decimal": decimal.Decimal("3.14"),
    "text": "ünïcödé",
    "bytes": b"\x00\xff",
    "time": datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC),
    "void": None,
    "list": [1, "two", {"three": [3]}],
    "table": {"nested": {"deeper": True}},
}


@contextmanager
def connected(broker: Broker, *, vhost: str = "/", heartbeat: int = 0, **options: Any) -> Iterator[BlockingConnection]:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.port, vhost, heartbeat=heartbeat, socket_timeout=DEADLINE, **options
    )
    with BlockingConnection(parameters) as connection:
        yield connection


@contextmanager
def channel_of(broker: Broker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


def queue(channel: BlockingChannel, **arguments: Any) -> str:
    declared = channel.queue_declare("", exclusive=True, arguments=arguments)
    return str(declared.method.queue)


def get(channel: BlockingChannel, name: str, *, auto_ack: bool = True) -> tuple[Any, Any, bytes]:
    method, properties, body = channel.basic_get(name, auto_ack=auto_ack)
    assert method is not None, "the queue is empty"
    return method, properties, body


def is_empty(channel: BlockingChannel, name: str) -> bool:
    return channel.queue_declare(name, passive=True).method.message_count == 0


def publish_consume(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.basic_qos(prefetch_count=10)
        sent = [b"message %d" % number for number in range(MESSAGES)]
        for number, body in enumerate(sent):
            properties = pika.BasicProperties(
                content_type="text/plain",
                content_encoding="utf-8",
                delivery_mode=1 + number % 2,
                priority=number % 10,
                correlation_id=str(number),
                reply_to=name,
                expiration="600000",
                message_id=f"id-{number}",
                timestamp=1700000000 + number,
                type="kind",
                user_id="guest",
                app_id="tests",
            )
            channel.basic_publish("", name, body, properties)
        received = []
        for method, properties, body in channel.consume(name, inactivity_timeout=DEADLINE):
            assert properties is not None, "no message came"
            assert properties.correlation_id == str(len(received))
            assert properties.user_id == "guest"
            received.append(body)
            channel.basic_ack(method.delivery_tag, multiple=len(received) % 3 == 0)
            if len(received) == MESSAGES:
                break
        channel.cancel()
        assert received == sent


def confirms(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel, **{"x-max-length": 5, "x-overflow": "reject-publish"})
        channel.confirm_delivery()
        for _ in range(5):
            channel.basic_publish("", name, b"fits", pika.BasicProperties(delivery_mode=2), mandatory=True)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, b"one too many")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"lost", mandatory=True)
        channel.basic_publish("", "nowhere", b"lost, and confirmed")


def nack(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        for number in range(3):
            channel.basic_publish("", name, b"%d" % number)
        method, _, body = get(channel, name, auto_ack=False)
        assert (method.redelivered, body) == (False, b"0")
        channel.basic_nack(method.delivery_tag, requeue=True)
        method, _, body = get(channel, name, auto_ack=False)
        assert (method.redelivered, body) == (True, b"0")
        channel.basic_reject(method.delivery_tag, requeue=False)
        for _ in range(2):
            method, _, _ = get(channel, name, auto_ack=False)
        channel.basic_nack(method.delivery_tag, multiple=True, requeue=False)
        assert is_empty(channel, name)


def tx(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.tx_select()
        channel.basic_publish("", name, b"undone")
        channel.tx_rollback()
        channel.basic_publish("", name, b"done")
        assert is_empty(channel, name)
        channel.tx_commit()
        assert get(channel, name)[2] == b"done"
        assert is_empty(channel, name)


def returns(broker: Broker) -> None:
    with channel_of(broker) as channel:
        returned: list[tuple[int, bytes]] = []
        channel.add_on_return_callback(lambda _, method, properties, body: returned.append((method.reply_code, body)))
        channel.basic_publish("amq.direct", "nowhere", b"back to you", mandatory=True)
        while not returned:
            channel.connection.process_data_events(time_limit=1)
        assert returned == [(312, b"back to you")]


def big_bodies(broker: Broker) -> None:
    body = os.urandom(BIG)
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.basic_publish("", name, body)
        for _, properties, received in channel.consume(name, auto_ack=True, inactivity_timeout=DEADLINE):
            assert properties is not None, "no message came"
            assert hashlib.sha256(received).digest() == hashlib.sha256(body).digest()
            break
        channel.cancel()


def many_channels(broker: Broker) -> None:
    with connected(broker) as connection:
        channels = [connection.channel() for _ in range(CHANNELS)]
        names = [queue(channel) for channel in channels]
        # Every channel publishes to its neighbour's queue.
        for channel, name in zip(channels, names[1:] + names[:1], strict=True):
            channel.confirm_delivery()
            channel.basic_publish("", name, name.encode())
        for channel, name in zip(channels, names, strict=True):
            _, _, body = get(channel, name)
            assert body == name.encode()
        for channel in channels[::2]:
            channel.close()
        assert connection.channel(1).is_open


def queues(broker: Broker) -> None:
    with channel_of(broker) as owner, channel_of(broker) as stranger:
        name = queue(owner)
        assert name.startswith("amq.gen-")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            stranger.queue_declare(name, passive=True)
        assert refused.value.reply_code == 405
        owner.exchange_declare("tests.pika", "topic", auto_delete=True)
        owner.queue_bind(name, "tests.pika", "a.*.c", {"why": "a test"})
        owner.basic_publish("tests.pika", "a.b.c", b"routed")
        assert get(owner, name)[2] == b"routed"
        owner.queue_purge(name)
        owner.queue_unbind(name, "tests.pika", "a.*.c", {"why": "a test"})
        owner.queue_delete(name)


def idle(broker: Broker, seconds: float) -> None:
    with connected(broker, heartbeat=2) as connection:
        connection.process_data_events(time_limit=seconds)
        name = queue(connection.channel())
        assert name


def blocked(broker: Broker) -> None:
    with connected(broker) as connection:
        events: list[str] = []
        connection.add_on_connection_blocked_callback(lambda _, frame: events.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda _, frame: events.append("unblocked"))
        channel = connection.channel()
        try:
            broker.block()
            while not events:
                # The alarm takes a moment to reach the connection, which is notified when it publishes.
                channel.basic_publish("", "nowhere", b"this blocks us")
                connection.process_data_events(time_limit=0.1)
        finally:
            broker.unblock()
        while len(events) < 2:
            connection.process_data_events(time_limit=0.1)
        assert events == ["low on memory", "unblocked"]
        assert queue(channel)


def field_tables(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel, **HEADERS)
        channel.basic_publish("", name, b"", pika.BasicProperties(headers=HEADERS))
        _, properties, _ = get(channel, name)
        expected = HEADERS | {"time": datetime.datetime(2024, 2, 29, 12, 0)}  # noqa: DTZ001 (pika reads it so)
        assert {**properties.headers, "time": None} == {**expected, "bytes": properties.headers["bytes"], "time": None}


def channel_error(broker: Broker) -> None:
    with connected(broker) as connection:
        for _ in range(3):
            channel = connection.channel(1)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                channel.queue_declare("there is no such queue", passive=True)
            assert closed.value.reply_code == 404
        assert queue(connection.channel(1))


def connection_error(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="530"), connected(broker, vhost="nowhere"):
        pass
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError), connected(broker, credentials=wrong):
        pass
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed, channel_of(broker) as channel:
        channel.basic_qos(prefetch_size=1)
    assert closed.value.reply_code == 540
