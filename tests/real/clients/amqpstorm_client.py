"""AMQPStorm, which receives in a separate thread."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import amqpstorm
import pytest

from tests.real.clients import BIG, MESSAGES, Broker
from tests.real.poll import DEADLINE, until

HEADERS = {
    "bool": True,
    "int": -(2**31),
    "long": 2**62,
    "text": "ünïcödé",
    "void": None,
    "list": [1, "two", {"three": [3]}],
    "table": {"nested": {"deeper": True}},
}


@contextmanager
def channel_of(broker: Broker, **options: Any) -> Iterator[amqpstorm.Channel]:
    password = options.pop("password", "guest")
    with (
        amqpstorm.Connection("127.0.0.1", "guest", password, port=broker.port, timeout=DEADLINE, **options) as each,
        each.channel() as channel,
    ):
        yield channel


def queue(channel: amqpstorm.Channel, **arguments: Any) -> str:
    return str(channel.queue.declare("", exclusive=True, arguments=arguments)["queue"])


def depth(channel: amqpstorm.Channel, name: str) -> int:
    return int(channel.queue.declare(name, passive=True)["message_count"])


def publish_consume(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.basic.qos(10)
        sent = [f"message {number}" for number in range(MESSAGES)]
        for number, body in enumerate(sent):
            properties = {"correlation_id": str(number), "delivery_mode": 1 + number % 2, "headers": {"n": number}}
            channel.basic.publish(body, name, properties=properties)
        received = []
        channel.basic.consume(queue=name)
        for message in channel.build_inbound_messages(break_on_empty=False):
            received.append(message.body)
            message.ack()
            if len(received) == MESSAGES:
                break
        assert received == sent


def confirms(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel, **{"x-max-length": 5, "x-overflow": "reject-publish"})
        channel.confirm_deliveries()
        assert [channel.basic.publish("fits", name) for _ in range(5)] == [True] * 5
        assert channel.basic.publish("one too many", name) is False
        with pytest.raises(amqpstorm.AMQPMessageError, match="NO_ROUTE"):
            channel.basic.publish("lost", "nowhere", mandatory=True)


def nack(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.basic.publish("again", name)
        until(lambda: depth(channel, name), "the message to arrive")
        message = channel.basic.get(name)
        assert not message.redelivered
        message.nack(requeue=True)
        message = channel.basic.get(name)
        assert message.redelivered
        message.reject(requeue=False)
        assert channel.basic.get(name) is None


def tx(broker: Broker) -> None:
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.tx.select()
        channel.basic.publish("undone", name)
        channel.tx.rollback()
        channel.basic.publish("done", name)
        assert depth(channel, name) == 0
        channel.tx.commit()
        assert channel.basic.get(name, no_ack=True).body == "done"


def big_bodies(broker: Broker) -> None:
    body = os.urandom(BIG // 2).hex()
    with channel_of(broker) as channel:
        name = queue(channel)
        channel.basic.publish(body, name)
        until(lambda: depth(channel, name), "the message to arrive")
        assert channel.basic.get(name, no_ack=True).body == body


def queues(broker: Broker) -> None:
    with channel_of(broker) as owner, channel_of(broker) as stranger:
        name = queue(owner)
        assert name.startswith("amq.gen-")
        with pytest.raises(amqpstorm.AMQPChannelError) as refused:
            stranger.queue.declare(name, passive=True)
        assert refused.value.error_code == 405
        owner.exchange.declare("tests.amqpstorm", "topic", auto_delete=True)
        owner.queue.bind(name, "tests.amqpstorm", "a.#", {"why": "a test"})
        owner.basic.publish("routed", "a.b.c", "tests.amqpstorm", properties={"headers": HEADERS})
        until(lambda: depth(owner, name), "the message to arrive")
        assert owner.basic.get(name, no_ack=True).properties["headers"] == HEADERS
        owner.queue.purge(name)
        owner.queue.unbind(name, "tests.amqpstorm", "a.#", {"why": "a test"})
        owner.queue.delete(name)


def channel_error(broker: Broker) -> None:
    with channel_of(broker) as channel:
        for _ in range(3):
            with pytest.raises(amqpstorm.AMQPChannelError) as closed:
                channel.queue.declare("there is no such queue", passive=True)
            assert closed.value.error_code == 404
            channel.open()
        assert queue(channel)


def connection_error(broker: Broker) -> None:
    with pytest.raises(amqpstorm.AMQPConnectionError), channel_of(broker, virtual_host="nowhere"):
        pass
    with pytest.raises(amqpstorm.AMQPConnectionError), channel_of(broker, password="wrong"):
        pass
