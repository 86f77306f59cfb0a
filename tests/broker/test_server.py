"""The trio shell of the broker, with a real client."""

from functools import partial

import pika
import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.server import serve


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


async def test_pika_publishes_and_gets() -> None:
    bodies = [b"", b"one", bytes(300_000)]
    async with serve(Broker()) as port:
        assert await trio.to_thread.run_sync(partial(send_and_get, port, bodies)) == bodies
