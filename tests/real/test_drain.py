"""SIGTERM: every connection ends with 320 at a command boundary, and what is under way is finished."""

from collections.abc import Callable

import pytest

from tests.real import raw
from tests.real.poll import until
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer, joined, listening

pytestmark = pytest.mark.real

StartProxy = Callable[..., Proxy]
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


def test_idle_clients_are_told(proxy: Proxy) -> None:
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
    octets = raw.message(1, "drained", bytes(1_000_000))
    with Peer.opened(rabbitmq.port, 1) as owner, Peer.opened(proxy.port, 1) as client:
        owner.declare(name="drained.", exclusive=True)
        owner.send(raw.queue_declare(1, "drained", exclusive=False))
        owner.expect(50, 11)
        client.send(octets[:400_000])
        drain(proxy)
        # Time for a hasty proxy to cut it: the rest goes in pieces.
        for start in range(400_000, len(octets), 100_000):
            client.send(octets[start : start + 100_000])
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
            octets = raw.deliver(1, bytes(1_000_000))
            broker.send(octets[:400_000])
            client.expect(60, 60)
            drain(proxy)
            broker.send(octets[400_000:])
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


def test_a_client_that_never_answers(start_proxy: StartProxy) -> None:
    """The configured time ends it, whatever is still open."""
    with listening() as listener:
        proxy = start_proxy(listener.getsockname()[1], limits={"drain_timeout": 2, "close_timeout": 60})
        with joined(proxy.port, listener) as (client, _broker):
            client.send(raw.message(1, "key", bytes(1_000_000))[:400_000])
            drain(proxy)
            assert proxy.wait() == 0
    assert "Traceback" not in proxy.log
