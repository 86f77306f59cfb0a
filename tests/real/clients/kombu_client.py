"""kombu, on py-amqp."""

import contextlib
import datetime
import decimal
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import amqp.exceptions
import kombu
import pytest

from tests.real.clients import BIG, CHANNELS, MESSAGES, Broker
from tests.real.poll import DEADLINE

HEADERS = {
    "bool": True,
    "int": -(2**31),
    "long": 2**62,
    "float": 0.1,
    "decimal": decimal.Decimal("3.14"),
    "text": "ünïcödé",
    "time": datetime.datetime(2024, 2, 29, 12, 0),  # noqa: DTZ001 (py-amqp reads it so)
    "void": None,
    "list": [1, "two", {"three": [3]}],
    "table": {"nested": {"deeper": True}},
}


@contextmanager
def connected(broker: Broker, *, vhost: str = "/", heartbeat: float = 0, **options: Any) -> Iterator[kombu.Connection]:
    password = options.pop("password", "guest")
    with kombu.Connection(
        hostname="127.0.0.1",
        port=broker.port,
        userid="guest",
        password=password,
        virtual_host=vhost,
        heartbeat=heartbeat,
        transport="pyamqp",
        connect_timeout=DEADLINE,
        transport_options=options,
    ) as connection:
        connection.connect()
        yield connection


def queue(channel: Any, **arguments: Any) -> str:
    return str(channel.queue_declare(queue="", exclusive=True, arguments=arguments).queue)


def drain(connection: kombu.Connection, is_done: Callable[[], Any]) -> None:
    while not is_done():
        connection.drain_events(timeout=DEADLINE)


def get(channel: Any, name: str, *, no_ack: bool = True) -> Any:
    message = channel.basic_get(name, no_ack=no_ack)
    assert message is not None, "the queue is empty"
    return message


def body_of(message: Any) -> bytes:
    """The body as bytes, whichever way kombu decoded it."""
    return message.body.encode() if isinstance(message.body, str) else bytes(message.body)


def is_empty(channel: Any, name: str) -> bool:
    return channel.queue_declare(queue=name, passive=True).message_count == 0


def publish(channel: Any, name: str, body: bytes, *, headers: dict[str, Any] | None = None, **options: Any) -> None:
    message = channel.prepare_message(body, content_type="application/data", content_encoding="binary", headers=headers)
    channel.basic_publish(message, routing_key=name, **options)


def publish_consume(broker: Broker) -> None:
    with connected(broker) as connection, connection.channel() as channel:
        place = kombu.Queue("", exclusive=True, channel=channel)
        place.declare()
        producer = kombu.Producer(channel, serializer="json")
        for number in range(MESSAGES):
            producer.publish(
                {"number": number},
                routing_key=place.name,
                correlation_id=str(number),
                delivery_mode=1 + number % 2,
                priority=number % 10,
                compression="zlib" if number % 5 == 0 else None,
            )
        received: list[int] = []

        def on_message(body: Any, message: kombu.Message) -> None:
            received.append(body["number"])
            message.ack()

        with kombu.Consumer(channel, [place], callbacks=[on_message], prefetch_count=10, auto_declare=False):
            drain(connection, lambda: len(received) == MESSAGES)
        assert received == list(range(MESSAGES))


def confirms(broker: Broker) -> None:
    with connected(broker, confirm_publish=True) as connection, connection.channel() as channel:
        name = queue(channel, **{"x-max-length": 5, "x-overflow": "reject-publish"})
        for _ in range(5):
            publish(channel, name, b"fits")
        with pytest.raises(amqp.exceptions.MessageNacked):
            publish(channel, name, b"one too many")
        publish(channel, "nowhere", b"lost, and confirmed")


def nack(broker: Broker) -> None:
    with connected(broker) as connection, connection.channel() as channel:
        name = queue(channel)
        publish(channel, name, b"again")
        message = get(channel, name, no_ack=False)
        assert not message.delivery_info["redelivered"]
        channel.basic_reject(message.delivery_tag, requeue=True)
        message = get(channel, name, no_ack=False)
        assert message.delivery_info["redelivered"]
        channel.basic_recover(requeue=True)
        message = get(channel, name, no_ack=False)
        channel.basic_reject(message.delivery_tag, requeue=False)
        assert is_empty(channel, name)


def tx(broker: Broker) -> None:
    with connected(broker) as connection, connection.channel() as channel:
        name = queue(channel)
        channel.tx_select()
        publish(channel, name, b"undone")
        channel.tx_rollback()
        publish(channel, name, b"done")
        assert is_empty(channel, name)
        channel.tx_commit()
        assert body_of(get(channel, name)) == b"done"


def returns(broker: Broker) -> None:
    with connected(broker) as connection, connection.channel() as channel:
        returned: list[int] = []
        channel.events["basic_return"].add(lambda error, *_: returned.append(error.reply_code))
        publish(channel, "nowhere", b"back to you", mandatory=True, exchange="amq.direct")
        drain(connection, lambda: returned)
        assert returned == [312]


def big_bodies(broker: Broker) -> None:
    body = os.urandom(BIG)
    with connected(broker) as connection, connection.channel() as channel:
        name = queue(channel)
        publish(channel, name, body)
        assert hashlib.sha256(body_of(get(channel, name))).digest() == hashlib.sha256(body).digest()


def many_channels(broker: Broker) -> None:
    with connected(broker, confirm_publish=True) as connection:
        channels = [connection.channel() for _ in range(CHANNELS)]
        names = [queue(channel) for channel in channels]
        for channel, name in zip(channels, names[1:] + names[:1], strict=True):
            publish(channel, name, name.encode())
        for channel, name in zip(channels, names, strict=True):
            assert body_of(get(channel, name)) == name.encode()
        for channel in channels:
            channel.close()


def queues(broker: Broker) -> None:
    with connected(broker) as one, connected(broker) as other:
        owner = one.channel()
        name = queue(owner)
        assert name.startswith("amq.gen-")
        with pytest.raises(amqp.exceptions.ResourceLocked):
            other.channel().queue_declare(queue=name, passive=True)
        owner.exchange_declare("tests.kombu", "headers", auto_delete=True)
        owner.queue_bind(name, "tests.kombu", "", arguments={"x-match": "any", "k": 1})
        publish(owner, "", b"routed", exchange="tests.kombu", headers={"k": 1})
        assert body_of(get(owner, name)) == b"routed"
        owner.queue_delete(name)


def idle(broker: Broker, seconds: float) -> None:
    with connected(broker, heartbeat=2) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # Often, because py-amqp takes the heartbeat it sent itself for data, and waits anew.
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.25)
            connection.heartbeat_check()
        assert queue(connection.channel())


def blocked(broker: Broker) -> None:
    notices: list[str] = []
    with connected(broker, on_blocked=notices.append, on_unblocked=lambda: notices.append("unblocked")) as connection:
        channel = connection.channel()
        try:
            broker.block()
            while not notices:
                # The alarm takes a moment to reach the connection, which is notified when it publishes.
                publish(channel, "nowhere", b"this blocks us")
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=0.1)
        finally:
            broker.unblock()
        drain(connection, lambda: len(notices) == 2)
        assert notices[-1] == "unblocked"
        assert queue(channel)


def field_tables(broker: Broker) -> None:
    with connected(broker) as connection, connection.channel() as channel:
        name = queue(channel, **HEADERS)
        publish(channel, name, b"", headers=HEADERS)
        assert get(channel, name).headers == HEADERS


def channel_error(broker: Broker) -> None:
    with connected(broker) as connection:
        for _ in range(3):
            channel = connection.channel()
            with pytest.raises(amqp.exceptions.NotFound):
                channel.queue_declare(queue="there is no such queue", passive=True)
        assert queue(connection.channel())


def connection_error(broker: Broker) -> None:
    with pytest.raises(amqp.exceptions.NotAllowed), connected(broker, vhost="nowhere"):
        pass
    with pytest.raises(amqp.exceptions.AccessRefused), connected(broker, password="wrong"):
        pass
