"""What programs do wrong with pika, aio-pika and amqplib, and the same done right.

Each works with the durable queue `QUEUE`, which is there only if it declares it. `MISTAKES` has for each mistake the
kinds of what is to be found, and how it is done right, which is to be found no fault with.
"""

from __future__ import annotations

import asyncio
import functools
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import aio_pika
import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.real.clients.amqplib_client import HERE, installed
from tests.real.poll import DEADLINE

QUEUE = "tests.mistakes"

MESSAGES = 10
PERSISTENT = pika.BasicProperties(delivery_mode=2)

Play = Callable[[int], None]
"""Takes the port of the broker."""


class Mistake(NamedTuple):
    play: Play
    kinds: tuple[str, ...]
    right: Play


# --- pika


def connected(port: int) -> BlockingConnection:
    """With what is pika's default."""
    return BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


def with_channel(work: Callable[[BlockingChannel], None]) -> Play:
    @functools.wraps(work)
    def play(port: int) -> None:
        with connected(port) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True)
            work(channel)

    return play


def publish(channel: BlockingChannel, count: int = MESSAGES) -> None:
    """Publishes, confirmed."""
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", QUEUE, b"%d" % number, PERSISTENT, mandatory=True)


def connection_per_message(port: int) -> None:
    for _ in range(MESSAGES):
        with connected(port) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True)
            publish(channel, 1)


@with_channel
def one_connection(channel: BlockingChannel) -> None:
    publish(channel)


@with_channel
def no_confirms(channel: BlockingChannel) -> None:
    channel.basic_publish("", QUEUE, b"lost?", PERSISTENT)


@with_channel
def auto_ack(channel: BlockingChannel) -> None:
    publish(channel)
    for received, _ in enumerate(channel.consume(QUEUE, auto_ack=True, inactivity_timeout=DEADLINE), 1):
        if received == MESSAGES:
            break
    channel.cancel()


@with_channel
def manual_ack(channel: BlockingChannel) -> None:
    publish(channel)
    channel.basic_qos(prefetch_count=5)
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=DEADLINE):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == MESSAGES:
            break
    channel.cancel()


@with_channel
def no_prefetch(channel: BlockingChannel) -> None:
    publish(channel)
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=DEADLINE):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == MESSAGES:
            break
    channel.cancel()


def get(channel: BlockingChannel) -> int:
    method, _, _ = channel.basic_get(QUEUE)
    assert method is not None
    return int(method.delivery_tag)


@with_channel
def double_ack(channel: BlockingChannel) -> None:
    publish(channel)
    tag = get(channel)
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare(QUEUE, passive=True)
    assert channel.is_closed


@with_channel
def single_acks(channel: BlockingChannel) -> None:
    publish(channel)
    for _ in range(MESSAGES):
        channel.basic_ack(get(channel))


@with_channel
def ack_on_another_channel(channel: BlockingChannel) -> None:
    publish(channel)
    other = channel.connection.channel()
    other.basic_ack(get(channel))
    with suppress(pika.exceptions.ChannelClosedByBroker):
        other.queue_declare(QUEUE, passive=True)
    assert other.is_closed
    assert channel.is_open


@with_channel
def ack_on_its_channel(channel: BlockingChannel) -> None:
    publish(channel)
    channel.connection.channel()
    channel.basic_ack(get(channel))


@with_channel
def requeue_at_once(channel: BlockingChannel) -> None:
    publish(channel, 1)
    channel.basic_qos(prefetch_count=1)
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=DEADLINE):
        assert method is not None
        if method.delivery_tag > 30:
            channel.basic_reject(method.delivery_tag, requeue=False)
            break
        channel.basic_nack(method.delivery_tag, requeue=True)
    channel.cancel()


@with_channel
def requeue_once(channel: BlockingChannel) -> None:
    publish(channel)
    channel.basic_qos(prefetch_count=1)
    settled = 0
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=DEADLINE):
        assert method is not None
        if method.redelivered:
            channel.basic_ack(method.delivery_tag)
            settled += 1
        else:
            channel.basic_nack(method.delivery_tag, requeue=True)
        if settled == MESSAGES:
            break
    channel.cancel()


@with_channel
def consumer_per_message(channel: BlockingChannel) -> None:
    publish(channel)
    channel.basic_qos(prefetch_count=1)
    for _ in range(MESSAGES):
        for method, _, _ in channel.consume(QUEUE, inactivity_timeout=DEADLINE):
            assert method is not None
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()


@with_channel
def unroutable(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with suppress(pika.exceptions.UnroutableError):
        channel.basic_publish("", f"{QUEUE}s", b"a typo", PERSISTENT, mandatory=True)


# --- aio-pika


def in_a_loop(work: Callable[[Any], Awaitable[None]]) -> Play:
    """Work with a connection as aio-pika makes it by default, one that connects again by itself."""

    @functools.wraps(work)
    def play(port: int) -> None:
        async def run() -> None:
            connection = await aio_pika.connect_robust(f"amqp://guest:guest@127.0.0.1:{port}/")
            async with connection:
                channel = await connection.channel()
                await channel.declare_queue(QUEUE, durable=True)
                await channel.close()
                await work(connection)

        asyncio.run(asyncio.wait_for(run(), DEADLINE))

    return play


MESSAGE = aio_pika.Message(b"body", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


@in_a_loop
async def channel_per_message(connection: Any) -> None:
    for _ in range(MESSAGES):
        async with connection.channel() as channel:
            await channel.default_exchange.publish(MESSAGE, QUEUE)


@in_a_loop
async def one_channel(connection: Any) -> None:
    async with connection.channel() as channel:
        for _ in range(MESSAGES):
            await channel.default_exchange.publish(MESSAGE, QUEUE)


@in_a_loop
async def no_confirms_and_no_prefetch(connection: Any) -> None:
    """With `publisher_confirms=False`, and as aio-pika's first example of a consumer is, without set_qos."""
    async with connection.channel(publisher_confirms=False) as channel:
        await channel.default_exchange.publish(MESSAGE, QUEUE)
        queue = await channel.get_queue(QUEUE)
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()
                break


@in_a_loop
async def confirms_and_prefetch(connection: Any) -> None:
    async with connection.channel() as channel:
        await channel.set_qos(prefetch_count=10)
        await channel.default_exchange.publish(MESSAGE, QUEUE)
        queue = await channel.get_queue(QUEUE)
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    pass
                break


# --- amqplib


def of_amqplib(name: str) -> Play:
    def play(port: int) -> None:
        command = [installed(), "mistakes.js", name, str(port)]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return play


MISTAKES = {
    "pika connection per message": Mistake(connection_per_message, ("connection-per-message",), one_connection),
    "pika no confirms": Mistake(no_confirms, ("unconfirmed-publish",), one_connection),
    "pika auto_ack": Mistake(auto_ack, ("auto-ack",), manual_ack),
    "pika no prefetch": Mistake(no_prefetch, ("unlimited-prefetch",), manual_ack),
    "pika double ack": Mistake(double_ack, ("unknown-ack",), single_acks),
    "pika ack on another channel": Mistake(ack_on_another_channel, ("ack-on-wrong-channel",), ack_on_its_channel),
    "pika requeue at once": Mistake(requeue_at_once, ("requeue-loop",), requeue_once),
    "pika consumer per message": Mistake(consumer_per_message, ("consumer-per-message",), manual_ack),
    "pika unroutable": Mistake(unroutable, ("returned-publish",), one_connection),
    "aio-pika channel per message": Mistake(channel_per_message, ("channel-per-message",), one_channel),
    "aio-pika careless": Mistake(
        no_confirms_and_no_prefetch, ("unconfirmed-publish", "unlimited-prefetch"), confirms_and_prefetch
    ),
    "amqplib polling": Mistake(of_amqplib("get_polling"), ("get-polling",), of_amqplib("consume")),
    "amqplib declares otherwise": Mistake(
        of_amqplib("declare_otherwise"), ("inequivalent-declare",), of_amqplib("declare_alike")
    ),
}
