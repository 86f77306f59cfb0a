"""What /metrics counts of messages, held against what a real client sees of RabbitMQ, with a second client beside."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

RULES: dict[str, tuple[dict[str, Any], ...]] = {
    "no rules": (),
    "a rule that looks": ({"name": "a", "action": "tag", "tags": ["a"], "match": {"method": "basic.publish"}},),
    "a rule that rewrites": (
        {"name": "a", "action": "rewrite", "match": {"method": "basic.publish"}, "headers": {"set": {"x": "y"}}},
    ),
    "a rule that sees each delivery": (
        {"name": "a", "action": "tag", "tags": ["a"], "match": {"method": "basic.deliver", "body": "never"}},
    ),
}
SAMPLE = re.compile(r"^amqproxy_(messages_)?(\w+?)(_total)? ([\d.e+]+)$", re.MULTILINE)
COUNTED = [
    "published",
    "confirmed",
    "nacked",
    "returned",
    "delivered",
    "redelivered",
    "auto_acked",
    "acked",
    "rejected",
    "requeued",
    "untimed",
    "unconfirmed",
    "unacked",
    "consumers",
]


LATENESS = 5.0
"""Seconds in which counts of what a pump relays have to be there: 0.25, and what this machine may be late."""


class Metered:
    """A proxy whose counters are read from its endpoint, from the point on where `begin` was called.

    Where it `is_pumped`, counts may come a little late.
    """

    def __init__(self, proxy: Proxy, port: int, is_pumped: bool) -> None:
        self.proxy = proxy
        self._port = port
        self._lateness = LATENESS if is_pumped else 0.0
        self._before: Counter[str] = Counter()

    def read(self) -> Counter[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        found = Counter({name: int(float(value)) for _, name, _, value in SAMPLE.findall(text) if name in COUNTED})
        assert set(found) == set(COUNTED)
        return found

    def begin(self, expected: dict[str, int]) -> None:
        self.expect(expected)
        self._before = self.read()

    def expect(self, expected: dict[str, int]) -> None:
        """So much has been counted since the beginning."""
        with suppress(TimeoutError):
            until(lambda: self.counted == expected, "the counts", self._lateness)
        assert self.counted == expected

    @property
    def counted(self) -> dict[str, int]:
        """What has changed since, without what has not."""
        now = self.read()
        return {name: now[name] - self._before[name] for name in COUNTED if now[name] != self._before[name]}


@pytest.fixture(params=list(RULES))
def metered(request: pytest.FixtureRequest, start_proxy: StartProxy, rabbitmq: RabbitMQ) -> Iterator[Metered]:
    port = free_port()
    rules = list(RULES[request.param])
    proxy = start_proxy(rabbitmq.port, rules=rules, metrics={"address": f"127.0.0.1:{port}"})
    with connected(proxy) as beside:  # has something open of each kind, which nothing may change
        channel = beside.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=1)
        got: list[bytes] = []
        channel.basic_consume(queue, lambda _, __, ___, body: got.append(body))
        channel.basic_publish("", queue, b"beside", mandatory=True)
        until(lambda: beside.process_data_events(0) or got, "the delivery beside")
        metered = Metered(proxy, port, is_pumped=not rules)
        metered.begin({"published": 1, "confirmed": 1, "delivered": 1, "unacked": 1, "consumers": 1})
        yield metered
        channel.basic_publish("", queue, b"beside", mandatory=True)
        assert channel.is_open
        assert got == [b"beside"]


def declared(channel: BlockingChannel, *bodies: bytes) -> str:
    """A queue with these messages."""
    queue: str = channel.queue_declare("", auto_delete=False, exclusive=True).method.queue
    for body in bodies:
        channel.basic_publish("", queue, body)
    return queue


def received(connection: BlockingConnection, deliveries: list[Any], count: int) -> None:
    until(lambda: connection.process_data_events(0) or len(deliveries) >= count, f"{count} deliveries")


def consumed(channel: BlockingChannel, queue: str, **options: Any) -> list[pika.spec.Basic.Deliver]:
    found: list[pika.spec.Basic.Deliver] = []
    channel.basic_consume(queue, lambda _, method, __, ___: found.append(method), **options)
    return found


def test_confirms_returns_and_nacks(metered: Metered) -> None:
    with connected(metered.proxy) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        name = queue.method.queue
        nacked = 0
        for size in (0, 1, 200_000, 300_000):  # of which the queue takes the first
            try:
                channel.basic_publish("", name, bytes(size), mandatory=True)
            except pika.exceptions.NackError:
                nacked += 1
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", bytes(400_000), mandatory=True)
        assert nacked
        metered.expect({"published": 5, "confirmed": 5 - nacked, "nacked": nacked, "returned": 1})
    metered.expect({"published": 5, "confirmed": 5 - nacked, "nacked": nacked, "returned": 1})


def test_a_channel_of_consumers_with_and_without_acknowledgements(metered: Metered) -> None:
    with connected(metered.proxy) as connection:
        channel = connection.channel()
        queues = [declared(channel, *(bytes([at]) * at for at in range(10))) for _ in range(2)]
        auto = consumed(channel, queues[0], auto_ack=True, consumer_tag="auto")
        manual = consumed(channel, queues[1], consumer_tag="manual")
        received(connection, auto, 10)
        received(connection, manual, 10)
        got = channel.basic_get(declared(channel, b"x", b"y"), auto_ack=True)[0]
        assert got is not None
        expected = {"published": 22, "delivered": 21, "auto_acked": 11, "unacked": 10, "consumers": 2}
        metered.expect(expected)
        tags = [each.delivery_tag for each in manual]
        channel.basic_ack(tags[3], multiple=True)
        channel.basic_reject(tags[9], requeue=False)
        channel.basic_nack(tags[5], multiple=True, requeue=False)
        channel.basic_ack(tags[7])
        channel.queue_declare("", exclusive=True)  # all has been taken
        metered.expect(expected | {"acked": 5, "rejected": 3, "unacked": 2})
        channel.basic_cancel("auto")
        channel.close()
        until(lambda: metered.counted.get("unacked") is None, "the end of the channel")
        again = connection.channel(channel.channel_number)
        back = consumed(again, queues[1])
        received(connection, back, 2)
        assert all(each.redelivered for each in back)
        until(lambda: metered.counted.get("redelivered") == metered.counted.get("unacked") == 2, "the deliveries again")
        again.basic_recover(requeue=True)
        received(connection, back, 4)
        again.basic_nack(0, multiple=True, requeue=False)
        again.queue_declare("", exclusive=True)
        metered.expect({
            "published": 22, "delivered": 25, "redelivered": 4, "auto_acked": 11, "acked": 5, "rejected": 5,
            "requeued": 2, "consumers": 1,
        })  # fmt: skip
    until(lambda: "consumers" not in metered.counted, "the end of the connection")


def test_transactions(metered: Metered) -> None:
    with connected(metered.proxy) as connection:
        filling = connection.channel()
        queue = declared(filling, *[b"x"] * 6)
        channel = connection.channel()
        channel.tx_select()
        deliveries = consumed(channel, queue)
        received(connection, deliveries, 6)
        channel.basic_ack(deliveries[1].delivery_tag, multiple=True)
        channel.tx_rollback()
        channel.basic_ack(deliveries[0].delivery_tag)
        channel.basic_nack(deliveries[2].delivery_tag, multiple=True, requeue=False)
        until(lambda: metered.counted.get("unacked") == 6, "the acks of the transaction")
        channel.tx_commit()
        metered.expect({
            "published": 6, "delivered": 6, "acked": 1, "rejected": 2, "unacked": 3, "consumers": 1
        })  # fmt: skip


def test_a_channel_that_the_broker_closes_and_a_connection_that_is_cut(metered: Metered) -> None:
    with connected(metered.proxy) as connection:
        channel = connection.channel()
        queue = declared(channel, *[b"x"] * 3)
        deliveries = consumed(channel, queue)
        received(connection, deliveries, 3)
        channel.basic_ack(99)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag 99"):
            channel.queue_declare("", exclusive=True)
        # The channel is over with the client's close-ok, which may still be on its way.
        until(lambda: metered.counted == {"published": 3, "delivered": 3}, "the end of the channel")
        channel = connection.channel()
        deliveries = consumed(channel, queue)
        received(connection, deliveries, 3)
        metered.expect({"published": 3, "delivered": 6, "redelivered": 3, "unacked": 3, "consumers": 1})
        connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        with suppress(Exception):
            connection.close()
        expected = {"published": 3, "delivered": 6, "redelivered": 3}
        until(lambda: metered.counted == expected, "the end of the connection")


def test_channels_that_interleave(metered: Metered) -> None:
    """RabbitMQ alternates the frames of large messages that it delivers on several channels."""
    with connected(metered.proxy) as connection:
        everything: list[list[Any]] = []
        for _ in range(4):
            channel = connection.channel()
            queue = declared(channel, *(bytes(size) for size in (700_000, 0, 1, 300_000)))
            everything.append(consumed(channel, queue))
        for each in everything:
            received(connection, each, 4)
        metered.expect({"published": 16, "delivered": 16, "unacked": 16, "consumers": 4})
    until(lambda: metered.counted == {"published": 16, "delivered": 16}, "the end of the connection")
