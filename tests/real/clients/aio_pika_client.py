"""aio-pika, each scenario in a separate event loop."""

import asyncio
import contextlib
import datetime
import decimal
import functools
import gc
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, Self

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractQueue

from tests.real.clients import BIG, CHANNELS, MESSAGES, Broker
from tests.real.poll import DEADLINE

HEADERS = {
    "bool": True,
    "int": -(2**31),
    "long": 2**62,
    "float": 0.5,
    "decimal": decimal.Decimal("3.14"),
    "text": "ünïcödé",
    "bytes": bytearray(b"\x00\xff"),
    "time": datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC),
    "void": None,
    "list": [1, "two", {"three": [3]}],
    "table": {"nested": {"deeper": True}},
}
More = ParamSpec("More")


def in_a_loop(
    scenario: Callable[Concatenate[Broker, More], Awaitable[None]],
) -> Callable[Concatenate[Broker, More], None]:
    """A scenario that anything may call, whatever runs around it."""

    @functools.wraps(scenario)
    def run(broker: Broker, /, *more: More.args, **named: More.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(scenario(broker, *more, **named), DEADLINE * 2)

        # A connection that could not be opened closes itself when it is collected: which fails, with a task that is
        # never awaited, where that happens in another thread than the loop's.
        gc.disable()
        try:
            asyncio.run(bounded())
        finally:
            gc.enable()

    return run


@asynccontextmanager
async def connected(
    broker: Broker, *, vhost: str = "/", password: str = "guest", heartbeat: int = 0
) -> AsyncIterator[AbstractConnection]:
    connection = await aio_pika.connect(
        host="127.0.0.1",
        port=broker.port,
        login="guest",
        password=password,
        virtualhost=vhost,
        timeout=DEADLINE,
        heartbeat=heartbeat,
    )
    async with connection:
        yield connection


@asynccontextmanager
async def channel_of(broker: Broker, **options: Any) -> AsyncIterator[AbstractChannel]:
    async with connected(broker) as connection, connection.channel(**options) as channel:
        yield channel


async def queue(channel: AbstractChannel, **arguments: Any) -> AbstractQueue:
    return await channel.declare_queue(exclusive=True, arguments=arguments)


async def publish(channel: AbstractChannel, name: str, body: bytes, **options: Any) -> Any:
    return await channel.default_exchange.publish(aio_pika.Message(body), name, **options)


async def is_empty(place: AbstractQueue) -> bool:
    return await place.get(fail=False) is None


@in_a_loop
async def publish_consume(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        await channel.set_qos(prefetch_count=10)
        place = await queue(channel)
        for number in range(MESSAGES):
            message = aio_pika.Message(
                b"message %d" % number,
                content_type="text/plain",
                delivery_mode=aio_pika.DeliveryMode(1 + number % 2),
                priority=number % 10,
                correlation_id=str(number),
                message_id=f"id-{number}",
                timestamp=1700000000 + number,
                user_id="guest",
            )
            await channel.default_exchange.publish(message, place.name)
        received = []
        async with place.iterator(timeout=DEADLINE) as messages:
            async for each in messages:
                async with each.process():
                    received.append(each.body)
                if len(received) == MESSAGES:
                    break
        assert received == [b"message %d" % number for number in range(MESSAGES)]


@in_a_loop
async def confirms(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=True, on_return_raises=True) as channel:
        place = await queue(channel, **{"x-max-length": 5, "x-overflow": "reject-publish"})
        # All at once, so that confirms come for several.
        await asyncio.gather(*(publish(channel, place.name, b"fits") for _ in range(5)))
        with pytest.raises(aiormq.exceptions.DeliveryError):
            await publish(channel, place.name, b"one too many")
        with pytest.raises(aio_pika.exceptions.PublishError):
            await publish(channel, "nowhere", b"lost", mandatory=True)


@in_a_loop
async def nack(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        place = await queue(channel)
        await publish(channel, place.name, b"again")
        message = await place.get()
        assert not message.redelivered
        await message.nack(requeue=True)
        message = await place.get()
        assert message.redelivered
        await message.reject(requeue=False)
        assert await is_empty(place)


@in_a_loop
async def tx(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=False) as channel:
        place = await queue(channel)
        transaction = channel.transaction()
        await transaction.select()
        await publish(channel, place.name, b"undone")
        await transaction.rollback()
        await publish(channel, place.name, b"done")
        assert await is_empty(place)
        await transaction.commit()
        message = await place.get(no_ack=True)
        assert message.body == b"done"


@in_a_loop
async def returns(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=True, on_return_raises=False) as channel:
        returned: asyncio.Queue[bytes] = asyncio.Queue()

        def on_return(_: object, message: Any) -> None:
            returned.put_nowait(message.body)

        channel.return_callbacks.add(on_return)
        await publish(channel, "nowhere", b"back to you", mandatory=True)
        assert await returned.get() == b"back to you"


@in_a_loop
async def big_bodies(broker: Broker) -> None:
    body = os.urandom(BIG)
    async with channel_of(broker) as channel:
        place = await queue(channel)
        await publish(channel, place.name, body)
        message = await place.get(no_ack=True)
        assert hashlib.sha256(message.body).digest() == hashlib.sha256(body).digest()


@in_a_loop
async def many_channels(broker: Broker) -> None:
    async with connected(broker) as connection:
        channels = [await connection.channel() for _ in range(CHANNELS)]
        places = await asyncio.gather(*map(queue, channels))

        async def work(number: int) -> None:
            neighbour = places[(number + 1) % CHANNELS].name
            await publish(channels[number], neighbour, neighbour.encode())

        await asyncio.gather(*map(work, range(CHANNELS)))
        for place in places:
            message = await place.get(no_ack=True)
            assert message.body == place.name.encode()
        await asyncio.gather(*(channel.close() for channel in channels))


@in_a_loop
async def queues(broker: Broker) -> None:
    async with channel_of(broker) as owner, channel_of(broker) as stranger:
        place = await queue(owner)
        assert place.name.startswith("amq.gen-")
        with pytest.raises(aiormq.exceptions.ChannelLockedResource):
            await stranger.declare_queue(place.name, passive=True)
        exchange = await owner.declare_exchange("tests.aio_pika", aio_pika.ExchangeType.FANOUT, auto_delete=True)
        await place.bind(exchange)
        await exchange.publish(aio_pika.Message(b"routed"), "")
        message = await place.get(no_ack=True)
        assert message.body == b"routed"
        await place.unbind(exchange)
        await place.delete()


@in_a_loop
async def idle(broker: Broker, seconds: float) -> None:
    async with connected(broker, heartbeat=2) as connection:
        await asyncio.sleep(seconds)
        assert await queue(await connection.channel())


class BlockNotices(logging.Handler):
    """What aiormq logs when the broker blocks and unblocks a connection: it has no callback for either."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked, self.unblocked = asyncio.Event(), asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "was unblocked" in record.msg:
            self.unblocked.set()
        elif "was blocked" in record.msg:
            self.blocked.set()

    def __enter__(self) -> Self:
        logging.getLogger("aiormq.connection").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("aiormq.connection").removeHandler(self)


@in_a_loop
async def blocked(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel(publisher_confirms=False)
        with BlockNotices() as notices:
            try:
                await asyncio.to_thread(broker.block)
                while not notices.blocked.is_set():
                    # The alarm takes a moment to reach the connection, which is notified when it publishes.
                    await publish(channel, "nowhere", b"this blocks us")
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(notices.blocked.wait(), 0.1)
            finally:
                await asyncio.to_thread(broker.unblock)
            await notices.unblocked.wait()
        assert await queue(channel)


@in_a_loop
async def field_tables(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        place = await queue(channel, **HEADERS)
        await channel.default_exchange.publish(aio_pika.Message(b"", headers=HEADERS), place.name)
        message = await place.get(no_ack=True)
        assert message.headers == HEADERS


@in_a_loop
async def channel_error(broker: Broker) -> None:
    async with connected(broker) as connection:
        for _ in range(3):
            channel = await connection.channel()
            with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
                await channel.declare_queue("there is no such queue", passive=True)
        assert await queue(await connection.channel())


@in_a_loop
async def connection_error(broker: Broker) -> None:
    with pytest.raises(aiormq.exceptions.InvalidFrameError, match=r"Connection\.Close"):
        async with connected(broker, vhost="nowhere"):
            pass
    with pytest.raises(aiormq.exceptions.ProbableAuthenticationError):
        async with connected(broker, password="wrong"):
            pass
