"""What the proxy does when a peer dies, hangs, refuses or closes at an awkward moment."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real import raw
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Close, Peer, joined, listening
from tests.real.wire import Recorder, assert_identical

pytestmark = pytest.mark.real

FORCED = 320
"""connection-forced"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where a broker that the test plays itself accepts."""
    with listening() as listener:
        yield listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def assert_settled(proxy: Proxy, before: int) -> None:
    """Nothing of any connection is left, in the proxy or in its log."""
    until(lambda: proxy.descriptors() <= before, f"the proxy to hold {before} descriptors again")
    assert "Traceback" not in proxy.log


def is_forced(close: Close | None) -> bool:
    return close is not None and (close.method, close.channel, close.code) == (raw.CONNECTION_CLOSE, 0, FORCED)


# ------------------------------------------------------------------------------------------------ the broker


def test_broker_killed_mid_publish(disposable_rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(disposable_rabbitmq.port)
    before = proxy.descriptors()
    with Peer.opened(proxy.port, 1) as client:
        name = client.declare()
        client.send(raw.message(1, name, bytes(10_000_000))[:5_000_000])
        disposable_rabbitmq.kill()
        assert is_forced(client.closed())
    assert_settled(proxy, before)
    with Peer.connect(proxy.port) as refused:
        refused.send(raw.PROTOCOL_HEADER)
        assert refused.receive(1) == b""
    disposable_rabbitmq.start()
    with Peer.opened(proxy.port, 1) as again:
        assert again.declare()


def test_broker_killed_mid_delivery(disposable_rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(disposable_rabbitmq.port)
    before = proxy.descriptors()
    with Peer.opened(proxy.port, 1) as client:
        name = client.declare()
        for _ in range(20):
            client.send(raw.message(1, name, bytes(1_000_000)))
        client.send(raw.consume(1, name))
        client.expect(60, 21)
        client.expect(60, 60)
        disposable_rabbitmq.kill()
        assert is_forced(client.closed())
    assert_settled(proxy, before)


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
def test_broker_lost_inside_a_frame(reset: bool, listener: socket.socket, start_proxy: StartProxy) -> None:
    """Half a frame that will never be whole must not stand before the close that follows it."""
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    with joined(proxy.port, listener) as (client, broker):
        broker.send(raw.deliver(1, bytes(1_000_000))[:300_000])
        client.expect(60, 60)
        if reset:
            broker.reset()
        else:
            broker.stream.close()
        assert is_forced(client.closed())
    assert_settled(proxy, before)


def test_broker_that_is_down(start_proxy: StartProxy) -> None:
    with listening() as listener:
        port = port_of(listener)
    proxy = start_proxy(port)
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        assert client.receive(1) == b""
    until(lambda: "refused" in proxy.log, "the reason in the log")
    assert str(port) in proxy.log
    assert "Traceback" not in proxy.log


def test_broker_that_hangs_up_on_accept(listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        listener.accept()[0].close()
        assert client.receive(1) == b""
    assert_settled(proxy, before)


def test_broker_that_never_answers(listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener), limits={"handshake_timeout": 1})
    before = proxy.descriptors()
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        with Peer(listener.accept()[0]) as broker:
            assert broker.receive(8) == raw.PROTOCOL_HEADER
            assert client.receive(1) == b""
            assert broker.receive(1) == b""
    until(lambda: "no connection.open-ok within 1 s" in proxy.log, "the reason in the log")
    assert_settled(proxy, before)


def test_broker_gone_silent(listener: socket.socket, start_proxy: StartProxy) -> None:
    """Half open: its machine is gone, and no FIN will ever come. Only heartbeats can detect it."""
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    with joined(proxy.port, listener, heartbeat=1) as (client, _broker):
        client.stream.settimeout(0.5)
        closed: list[Close | None] = []

        def beat() -> bool:
            client.send(raw.frame(raw.HEARTBEAT, 0))
            try:
                while (received := client.read()) is not None:
                    if received.close:
                        closed.append(received.close)
            except TimeoutError:
                return False
            return True

        until(beat, "the proxy to give the broker up")
        assert is_forced(closed[0])
    assert_settled(proxy, before)


# ------------------------------------------------------------------------------------------------ the client

KILLED = """
import sys
from tests.real import raw
client = raw.Peer.opened(int(sys.argv[1]), 1)
client.send(raw.message(1, "nowhere", bytes(1_000_000))[:500_000])
print(client.address[1], flush=True)
client.receive(1)
"""


def test_client_killed(rabbitmq: RabbitMQ, proxy: Proxy) -> None:
    before = proxy.descriptors()
    here = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, str(proxy.port)]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE) as client:
        assert client.stdout
        assert client.stdout.readline()
        until(lambda: "127.0.0.1" in rabbitmq.ctl("list_connections", "peer_host"), "RabbitMQ to list the connection")
        os.kill(client.pid, signal.SIGKILL)
    until(lambda: not rabbitmq.ctl("list_connections", "peer_host").strip(), "RabbitMQ to forget the connection")
    assert_settled(proxy, before)


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
def test_client_lost_inside_a_frame(reset: bool, listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    with joined(proxy.port, listener) as (client, broker):
        client.send(raw.message(1, "key", bytes(1_000_000))[:300_000])
        broker.expect(60, 40)
        if reset:
            client.reset()
        else:
            client.stream.close()
        while broker.receive(65536):
            pass
    assert_settled(proxy, before)


def test_client_that_never_speaks(listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener), limits={"handshake_timeout": 1})
    before = proxy.descriptors()
    with Peer.connect(proxy.port) as client:
        assert client.receive(1) == b""
    assert_settled(proxy, before)


def test_client_gone_silent(rabbitmq: RabbitMQ, proxy: Proxy) -> None:
    """Half open: heartbeats were agreed on, and none come."""
    before = proxy.descriptors()
    with Peer.opened(proxy.port, heartbeat=1) as client:
        client.closed()
    assert_settled(proxy, before)


# ------------------------------------------------------------------------------------------------ closing


def test_half_close_is_forwarded(listener: socket.socket, start_proxy: StartProxy) -> None:
    """What the broker still sends reaches a client that has closed its half, and the other way round."""
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    with joined(proxy.port, listener) as (client, broker):
        client.stream.shutdown(socket.SHUT_WR)
        assert broker.receive(1) == b""
        broker.send(raw.deliver(1, b"the last word"))
        broker.stream.close()
        assert [each.kind for each in client.frames()] == [raw.METHOD, raw.HEADER, raw.BODY]
    assert_settled(proxy, before)


def test_half_close_is_bounded(listener: socket.socket, start_proxy: StartProxy) -> None:
    """A peer that never closes its own half does not keep the connection for ever."""
    proxy = start_proxy(port_of(listener), limits={"close_timeout": 1})
    before = proxy.descriptors()
    with joined(proxy.port, listener) as (client, broker):
        client.stream.shutdown(socket.SHUT_WR)
        assert broker.receive(1) == b""
        assert_settled(proxy, before)


def test_both_close_at_once(listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener))
    before = proxy.descriptors()
    for _ in range(20):
        with joined(proxy.port, listener) as (client, broker):
            client.send(raw.connection_close(200, "client"))
            broker.send(raw.connection_close(FORCED, "broker"))
            assert client.expect(10, 50).close.text == "broker"  # type: ignore[union-attr]
            assert broker.expect(10, 50).close.text == "client"  # type: ignore[union-attr]
            client.send(raw.connection_close_ok())
            broker.send(raw.connection_close_ok())
            client.expect(10, 51)
            broker.expect(10, 51)
            broker.stream.close()
            assert client.read() is None
    assert_settled(proxy, before)


# ------------------------------------------------------------------------------------------------ the bytes between


def test_dribbled_bytes(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    """One byte a segment, from the protocol header to the last close: nothing changes."""
    with ExitStack() as stack:
        inside = stack.enter_context(Recorder(rabbitmq.port))
        outside = stack.enter_context(Recorder(start_proxy(inside.port).port))
        client = stack.enter_context(Peer.connect(outside.port))
        client.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def dribble(*data: bytes) -> None:
            for byte in b"".join(data):
                client.stream.send(bytes([byte]))

        dribble(raw.PROTOCOL_HEADER)
        client.expect(10, 10)
        dribble(raw.start_ok())
        client.expect(10, 30)
        dribble(raw.tune_ok(), raw.connection_open())
        client.expect(10, 41)
        dribble(raw.channel_open(1))
        client.expect(20, 11)
        name = client.declare()
        dribble(raw.message(1, name, b"drop by drop"), raw.consume(1, name))
        client.expect(60, 21)
        client.expect(60, 60)
        assert client.read() is not None
        assert client.read() == (raw.BODY, 1, b"drop by drop")
        dribble(raw.connection_close())
        client.expect(10, 51)
        client.stream.close()
        assert_identical(outside.take(), inside.take())


def test_dribbled_to_the_client(listener: socket.socket, start_proxy: StartProxy) -> None:
    proxy = start_proxy(port_of(listener))
    with joined(proxy.port, listener) as (client, broker):
        sent = raw.deliver(1, bytes(range(256)) * 8, frame_max=4096)
        for byte in sent:
            broker.stream.send(bytes([byte]))
        assert client.receive(len(sent)) == sent
