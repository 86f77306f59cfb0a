"""A broker's server that runs, and what a real client does with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pika
import trio

from amqproxy.broker.server.server import BrokerServer


@asynccontextmanager
async def running(server: BrokerServer) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield
        nursery.cancel_scope.cancel()


def send_and_get(port: int, bodies: list[bytes]) -> list[bytes]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body)
    got = [channel.basic_get(queue)[2] for _ in bodies]
    connection.close()
    return got
