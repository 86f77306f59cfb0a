"""SIGTERM: every connection ends with 320 at a command boundary, and what is under way is finished."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real import raw
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer, joined, listening

pytestmark = pytest.mark.real

FORCED = 320


def drain(proxy: Proxy) -> None:
    """Sends SIGTERM, and returns once the proxy accepts no more: then it has noticed."""
    proxy.terminate()

    def is_refused() -> bool:
        try:
            Peer.connect(proxy.port).stream.close()
        except OSError:
            return True
        return False

    until(is_refused, "the proxy to stop accepting")


def test_nothing_to_drain(proxy: Proxy) -> None:
    drain(proxy)
    assert proxy.wait() == 0
    assert "Traceback" not in proxy.log


def test_idle_clients_are_closed(proxy: Proxy) -> None:
    clients = [Peer.opened(proxy.port, 1) for _ in range(5)]
    drain(proxy)
    for client in clients:
        with client:
            close = client.expect(10, 50).close
            assert close is not None
            assert (close.code, close.channel) == (FORCED, 0)
            client.send(raw.connection_close_ok())
            assert client.read() is None
    assert proxy.wait() == 0
    assert "Traceback" not in proxy.log


def test_a_publish_under_way_is_finished(rabbitmq: RabbitMQ, proxy: Proxy) -> None:
    data = raw.message(1, "drained", bytes(1_000_000))
    with Peer.opened(rabbitmq.port, 1) as owner, Peer.opened(proxy.port, 1) as client:
        owner.declare(name="drained.", exclusive=True)
        owner.send(raw.queue_declare(1, "drained", exclusive=False))
        owner.expect(50, 11)
        client.send(data[:400_000])
        drain(proxy)
        # Time for a hasty proxy to cut it: the rest goes in pieces.
        for start in range(400_000, len(data), 100_000):
            client.send(data[start : start + 100_000])
        close = client.expect(10, 50).close
        assert close is not None
        assert close.code == FORCED
        client.send(raw.connection_close_ok())
        assert client.read() is None
        assert proxy.wait() == 0

        def is_there() -> bool:
            owner.send(raw.method(1, 60, 70, b"\0\0" + raw.shortstr("drained") + b"\1"))
            received = owner.read()
            assert received is not None
            return received.method == (60, 71)

        until(is_there, "the message to arrive")
        owner.send(raw.method(1, 50, 40, b"\0\0" + raw.shortstr("drained") + b"\0"))


def test_a_delivery_under_way_is_finished(start_proxy: StartProxy) -> None:
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1])
        with joined(proxy.port, listener) as (client, broker):
            data = raw.deliver(1, bytes(1_000_000))
            broker.send(data[:400_000])
            client.expect(60, 60)
            drain(proxy)
            broker.send(data[400_000:])
            kinds = []
            while (received := client.read()) is not None and received.close is None:
                kinds.append(received.kind)
            assert kinds == [raw.HEADER, *[raw.BODY] * 8]
            assert received is not None
            assert received.close is not None
            assert received.close.code == FORCED
            client.send(raw.connection_close_ok())
            assert client.read() is None
        assert proxy.wait() == 0


def test_deliveries_stop_at_a_boundary(rabbitmq: RabbitMQ, proxy: Proxy) -> None:
    """A consumer in the middle of a long stream of messages sees whole ones only, and then the close."""
    with Peer.opened(proxy.port, 1) as client:
        name = client.declare()
        client.send(raw.method(1, 85, 10, b"\0"))
        client.expect(85, 11)
        for _ in range(50):
            client.send(raw.message(1, name, bytes(300_000)))
        confirmed = 0
        while confirmed < 50:
            confirmed = int.from_bytes(client.expect(60, 80).payload[4:12], "big")
        client.send(raw.consume(1, name))
        client.expect(60, 21)
        drain(proxy)
        rest = 0
        while (received := client.read()) is not None and received.close is None:
            if received.method == (60, 60):
                assert rest == 0
                rest = 300_000
            elif received.kind == raw.BODY:
                rest -= len(received.payload)
        assert rest == 0
        assert received is not None
        assert received.close is not None
        assert received.close.code == FORCED
        client.send(raw.connection_close_ok())
        assert client.read() is None
    assert proxy.wait() == 0


def test_a_publisher_that_goes_on(rabbitmq: RabbitMQ, proxy: Proxy) -> None:
    """What a client sends before it has read the close is dropped; RabbitMQ has seen whole publishes only."""
    with Peer.opened(rabbitmq.port, 1) as owner, Peer.opened(proxy.port, 1) as client:
        owner.send(raw.queue_declare(1, "tests.drain", exclusive=False))
        owner.expect(50, 11)
        data = raw.message(1, "tests.drain", bytes(10_000)) * 10
        with ThreadPoolExecutor(1) as pool:

            def publish() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        client.stream.sendall(data)

            publishing = pool.submit(publish)
            drain(proxy)
            close = client.expect(10, 50).close
            assert close is not None
            assert close.code == FORCED
            assert proxy.wait() == 0
            publishing.result()
        owner.send(raw.consume(1, "tests.drain"))
        owner.expect(60, 21)
        owner.expect(60, 60)
        owner.send(raw.method(1, 50, 40, b"\0\0" + raw.shortstr("tests.drain") + b"\0"))
    assert "Traceback" not in proxy.log


def test_before_the_connection_is_open(start_proxy: StartProxy) -> None:
    """No client to close yet, and nothing to wait for."""
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1], limits={"drain_timeout": 60, "handshake_timeout": 60})
        with Peer.connect(proxy.port) as silent, Peer.connect(proxy.port) as greeted:
            greeted.send(raw.PROTOCOL_HEADER)
            with Peer(listener.accept()[0]) as broker:
                broker.receive(8)
                drain(proxy)
                assert greeted.closed() is None
                assert silent.closed() is None
                assert proxy.wait(30) == 0


def test_a_client_that_never_answers(start_proxy: StartProxy) -> None:
    """The configured time ends it, whatever is still open."""
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1], limits={"drain_timeout": 2, "close_timeout": 60})
        with joined(proxy.port, listener) as (client, _broker):
            client.send(raw.message(1, "key", bytes(1_000_000))[:400_000])
            drain(proxy)
            assert proxy.wait() == 0
    assert "Traceback" not in proxy.log
