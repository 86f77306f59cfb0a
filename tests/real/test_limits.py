"""Memory, sockets and tasks stay bounded, whatever peers do."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real import raw
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer, joined, listening

pytestmark = pytest.mark.real

MEGABYTE = 1024 * 1024
FLOOD = 300 * MEGABYTE
"""Far more than the buffers of every kernel between the peers hold."""

STALLED = 3.0
"""Seconds without a single byte taken, after which a writer is held to be blocked."""

WARM_UP, CONNECTIONS = 300, 2000


def flood(writer: Peer, data: bytes) -> int:
    """Sends until the peer takes no more; how much it took."""
    taken = 0
    writer.stream.settimeout(STALLED)
    view = memoryview(data)
    while taken < FLOOD:
        try:
            taken += writer.stream.send(view[taken % len(data) :])
        except TimeoutError:
            break
    return taken


@pytest.mark.parametrize("flooder", ["client", "broker"])
def test_a_reader_that_never_reads(flooder: str, start_proxy: StartProxy) -> None:
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1])
        with joined(proxy.port, listener) as (client, broker), joined(proxy.port, listener) as (other, other_broker):
            writer, data = {
                "client": (client, raw.message(1, "key", bytes(100)) * 10_000),
                "broker": (broker, raw.deliver(1, bytes(100)) * 10_000),
            }[flooder]
            before = proxy.rss()
            assert flood(writer, data) < FLOOD, "the writer was never slowed"
            assert proxy.rss() - before < 20 * MEGABYTE
            # A slow reader slows its writer, and no other connection.
            other.send(raw.message(1, "key", b"hello"))
            other_broker.expect(60, 40)
            other_broker.send(raw.deliver(1, b"hello"))
            other.expect(60, 60)


def test_a_reader_that_reads_again(start_proxy: StartProxy) -> None:
    """What was held back by a full buffer arrives whole, once there is room."""
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1])
        with joined(proxy.port, listener) as (client, broker):
            data = raw.message(1, "key", bytes(100)) * 10_000
            taken = flood(client, data)
            expected = (data * (taken // len(data) + 1))[:taken]
            # The last frame may be cut: what is not whole may wait in the proxy for its end.
            whole = taken - taken % (len(data) // 10_000)
            assert broker.receive(whole) == expected[:whole]


def connect_and_leave(port: int, number: int) -> None:
    """One connection: closed in order, by FIN, by RST, or before the handshake."""
    if number % 10 == 9:
        with Peer.connect(port) as client:
            if number % 20 == 19:
                client.send(raw.PROTOCOL_HEADER)
        return
    with Peer.opened(port, 1) as client:
        if number % 5 == 0:
            client.reset()
        elif number % 5 != 1:
            client.send(raw.message(1, "nowhere", b"hello"), raw.connection_close())
            client.expect(10, 51)


def gauges(port: int) -> dict[str, float]:
    """What is open now by /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=raw.DEADLINE) as answer:
        lines = answer.read().decode().splitlines()
    values = dict(line.split() for line in lines if line.startswith(("amqproxy_connections ", "amqproxy_channels ")))
    return {name: float(value) for name, value in values.items()}


def test_connections_come_and_go(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    metrics = free_port()
    proxy = start_proxy(rabbitmq.port, metrics={"address": f"127.0.0.1:{metrics}"})
    nothing = {"amqproxy_connections": 0, "amqproxy_channels": 0}
    assert gauges(metrics) == nothing
    idle = proxy.descriptors()

    def run(count: int) -> None:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(connect_and_leave, proxy.port, number) for number in range(count)]:
                done.result()
        until(lambda: proxy.descriptors() <= idle, f"the proxy to hold {idle} descriptors again")

    run(WARM_UP)
    gauges(metrics)
    before = proxy.rss()
    run(CONNECTIONS)
    growth = proxy.rss() - before
    # A leaked task, socket or session of even one KiB a connection would show.
    until(lambda: gauges(metrics) == nothing, "/metrics to show no connection and no channel")
    assert growth < 2 * MEGABYTE, f"{growth} bytes more after {CONNECTIONS} connections"
    assert "Traceback" not in proxy.log


def test_more_connections_than_allowed(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(rabbitmq.port, limits={"connections": 2})
    with Peer.opened(proxy.port, 1), Peer.opened(proxy.port, 1), Peer.connect(proxy.port) as refused:
        refused.send(raw.PROTOCOL_HEADER)
        assert refused.receive(1) == b""

    def is_room() -> bool:
        try:
            Peer.opened(proxy.port, 1).stream.close()
        except AssertionError:
            return False
        return True

    until(is_room, "room for another connection")
