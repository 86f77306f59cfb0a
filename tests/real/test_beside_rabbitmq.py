"""What a peer sees at the ends of a connection's life: of RabbitMQ itself, and through the proxy the same."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real import raw
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.once]

HEARTBEAT = 1


@pytest.fixture(scope="module")
def proxy(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    started = Proxy(tmp_path_factory.mktemp("proxy"), rabbitmq.port)
    yield started
    started.kill()


@pytest.fixture(params=["rabbitmq", "proxy"])
def port(request: pytest.FixtureRequest) -> int:
    """Of RabbitMQ, and of the proxy in front of it."""
    return request.getfixturevalue(request.param).port  # type: ignore[no-any-return]


def end(peer: Peer, seconds: float) -> str:
    """How the connection ends within so many seconds, whatever comes before: EOF, RST or not at all."""
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            peer.stream.settimeout(left)
            if not peer.stream.recv(65536):
                return "EOF"
    except TimeoutError:
        pass
    except ConnectionResetError:
        return "RST"
    return "open"


# ------------------------------------------------------------------------------------------------ the handshake


@pytest.mark.parametrize("header", [raw.PROTOCOL_HEADER, b"AMQP\1\1\0\x09"], ids=["0-9-1", "0-9"])
def test_start_ok_with_the_header(port: int, header: bytes) -> None:
    with Peer.connect(port) as peer:
        peer.send(header, raw.start_ok())
        peer.expect(10, 10)
        peer.expect(10, 30)
        peer.send(raw.tune_ok(), raw.connection_open())
        peer.expect(10, 41)
        peer.send(raw.channel_open(1))
        peer.expect(20, 11)
        assert peer.declare()


def test_start_ok_tune_ok_and_open_in_one_write(port: int) -> None:
    with Peer.connect(port) as peer:
        peer.send(raw.PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(raw.start_ok(), raw.tune_ok(), raw.connection_open(), raw.channel_open(1))
        for method in ((10, 30), (10, 41), (20, 11)):
            peer.expect(*method)


# ------------------------------------------------------------------------------------------------------ the end


def test_who_misses_its_heartbeats_is_reset(port: int) -> None:
    with Peer.opened(port, 1, heartbeat=HEARTBEAT) as peer:
        assert end(peer, 10 * HEARTBEAT) == "RST"


def test_a_client_that_neither_reads_nor_sends_is_disconnected(port: int) -> None:
    """Its own bytes are refused then; so nothing that it publishes can vanish."""
    with Peer.opened(port, 1, heartbeat=HEARTBEAT) as peer, Peer.opened(port, 1) as other:
        queue = peer.declare(exclusive=False)
        peer.send(raw.consume(1, queue))
        peer.expect(60, 21)
        for _ in range(200):
            other.send(raw.message(1, queue, bytes(100_000)))
        deadline = time.monotonic() + 15 * HEARTBEAT
        time.sleep(4 * HEARTBEAT)
        with pytest.raises(OSError, match=r"(?i)reset|broken pipe"):  # noqa: PT012 - the first one may be on its way
            while time.monotonic() < deadline:
                peer.send(raw.message(1, "nowhere", b""))
                time.sleep(0.1)
        other.send(raw.method(1, 50, 40, b"\0\0" + raw.shortstr(queue) + b"\0"))  # queue.delete


def test_after_close_ok_the_connection_is_the_client_s_to_close(port: int) -> None:
    with Peer.opened(port, 1) as peer:
        peer.send(raw.connection_close())
        peer.expect(10, 51)
        assert end(peer, 2.0) == "open"
        peer.stream.shutdown(socket.SHUT_WR)
        assert end(peer, 10.0) in ("EOF", "RST")


# -------------------------------------------------------------------------------------------- PROXY protocol


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "over TLS"])
def test_rabbitmq_learns_who_the_client_is(rabbitmq: RabbitMQ, start_proxy: StartProxy, tls: bool) -> None:
    upstream = {"proxy_protocol": True} | ({"tls": {"ca": str(rabbitmq.certificates["authority"])}} if tls else {})
    with proxied(rabbitmq):
        proxy = start_proxy(rabbitmq.tls_port if tls else rabbitmq.port, upstream=upstream)
        stream = socket.create_connection(
            ("127.0.0.1", proxy.port), timeout=raw.DEADLINE, source_address=("127.1.2.3", 0)
        )
        with Peer(stream) as peer:
            peer.handshake()
            peer.send(raw.channel_open(1))
            peer.expect(20, 11)
            found = rabbitmq.ctl("list_connections", "peer_host", "peer_port", "port").splitlines()
            host, here = peer.address
            assert f"{host}\t{here}\t{proxy.port}" in found


@contextmanager
def proxied(rabbitmq: RabbitMQ) -> Iterator[None]:
    """While RabbitMQ expects a PROXY header on each connection."""
    rabbitmq.ctl("eval", "application:set_env(rabbit, proxy_protocol, true).")
    try:
        yield
    finally:
        rabbitmq.ctl("eval", "application:set_env(rabbit, proxy_protocol, false).")
