"""The snapshot of a session between pika and RabbitMQ, while a queue takes its time."""

from __future__ import annotations

import socket

import pika
import pytest
import trio
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from amqproxy.amqp091.frame import METHOD, Frame, encode_frame
from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.configuration.config import Limits
from amqproxy.proxy.listener import ProxyServer, listen
from amqproxy.proxy.open_listener import OpenListener
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.topology.observed_topology import ObservedTopology
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, ConsumerSnapshot
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

QUEUE = "snapshot"
PID = f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{QUEUE}">>))'


async def snapshot_of(server: ProxyServer) -> ConnectionSnapshot:
    [session] = server.sessions.values()
    session.recall()
    with trio.fail_after(5):
        while True:
            traffic = session.traffic
            assert traffic is not None
            found = traffic.snapshot(0)
            if found is not None and found.channels and found.channels[0].requests:
                return found
            await trio.sleep(0.05)


def begin(port: int) -> tuple[BlockingConnection, BlockingChannel]:
    """Leave two of three deliveries unacknowledged on a confirm channel."""
    connection = BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, auto_delete=True)
    for number in range(3):
        channel.basic_publish("", QUEUE, b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    tag = channel.basic_consume(QUEUE, lambda *_: None, consumer_tag="tag")
    assert tag == "tag"
    connection.process_data_events(1)
    return connection, channel


async def test_a_client_of_rabbitmq_whose_queue_is_suspended(rabbitmq: RabbitMQ) -> None:
    async def dial() -> Transport:
        broker = socket.create_connection(("127.0.0.1", rabbitmq.port))
        broker.setblocking(False)
        return SocketTransport(broker)

    metrics = Metrics()
    server = ProxyServer(Upstreams.of(dial, metrics), Limits(), metrics, topology=ObservedTopology())
    [listener] = await listen("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, [OpenListener(listener)], trio.Event())
        connection, channel = await trio.to_thread.run_sync(begin, listener.socket.getsockname()[1])
        await trio.to_thread.run_sync(rabbitmq.ctl, "eval", f"{PID}, sys:suspend(amqqueue:get_pid(Q)).")
        try:
            impl = channel._impl
            impl.basic_publish("", QUEUE, b"4")
            impl.basic_publish("", QUEUE, b"5")
            impl._send_method(pika.spec.Queue.Declare(queue=QUEUE, passive=True))
            await trio.to_thread.run_sync(connection._flush_output)
            found = await snapshot_of(server)
        finally:
            await trio.to_thread.run_sync(rabbitmq.ctl, "eval", f"{PID}, sys:resume(amqqueue:get_pid(Q)).")
        await trio.to_thread.run_sync(connection.close)
        nursery.cancel_scope.cancel()
    await listener.aclose()
    assert (found.handshake.user, found.handshake.virtual_host) == ("guest", "/")
    assert found.handshake.client_properties is not None
    assert found.handshake.client_properties["product"] == "Pika Python Client Library"
    [known] = found.channels
    assert (known.mode, known.published, known.has_forgotten) == ("confirm", 5, False)
    assert [tag for each in known.unconfirmed for tag in range(each.first, each.last + 1)] == [4, 5]
    assert sum(each.count for each in known.unacked) == 2
    assert known.consumers == (ConsumerSnapshot(tag="tag", queue=QUEUE),)
    [request] = known.requests
    declared = Frame(encode_frame(METHOD, 1, request.method)).method
    assert isinstance(declared, QueueDeclare)
    assert (declared.queue, declared.passive) == (QUEUE, True)
