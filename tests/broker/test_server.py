"""The trio shell of the broker, with a real client."""

import math
from functools import partial

import pika
import trio
import trio.testing

from amqproxy.amqp091.frames import encode_method
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk, ConnectionOpen, ConnectionTuneOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.broker import Broker
from amqproxy.broker.link import CLOSING_TIME
from amqproxy.broker.server import serve, serve_stream
from tests.broker.client import Client


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


OPENING = b"".join(
    [
        HEADER,
        encode_method(0, Client.start_ok(b"\0guest\0guest")),
        encode_method(0, ConnectionTuneOk(2047, 131_072, 0)),
        encode_method(0, ConnectionOpen("/")),
    ]
)
GOODBYE = encode_method(0, ConnectionClose(200, "bye"))


async def test_the_client_may_go_on_after_it_closed() -> None:
    """As amqplib does, whose last acks may come behind its close: to be reset for them would cost it our close-ok."""
    broker = Broker()
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, broker, theirs)
        await ours.send_all(OPENING + GOODBYE)
        received = b"".join([octets async for octets in ours])
        assert received.endswith(encode_method(0, ConnectionCloseOk()))
        assert not broker.links
        await ours.send_all(b"and more")
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        await ours.aclose()
        with trio.fail_after(CLOSING_TIME / 2):
            while nursery.child_tasks:
                await trio.testing.wait_all_tasks_blocked()


async def test_but_not_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await ours.send_all(OPENING + GOODBYE)
        nursery.start_soon(serve_stream, Broker(), theirs)
    assert math.isclose(trio.current_time() - began, CLOSING_TIME)
