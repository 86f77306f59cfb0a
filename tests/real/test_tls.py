"""TLS on the listener and towards the broker, with a certificate authority made for the run."""

import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amqproxy.control import ControlClient
from amqproxy.pump.tls_records import is_available
from tests.real import raw
from tests.real.clients import Broker, pika_client
from tests.real.poll import until
from tests.real.proxy import StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = pytest.mark.real


@pytest.fixture
def listen_tls(rabbitmq: RabbitMQ) -> dict[str, Any]:
    """The config of a listener that shows RabbitMQ's own certificate."""
    return {"tls": {name: str(rabbitmq.certificates[name]) for name in ("certificate", "key")}}


def upstream_tls(rabbitmq: RabbitMQ) -> dict[str, Any]:
    return {"tls": {"ca": str(rabbitmq.certificates["authority"])}}


def secured(port: int, authority: Path) -> Peer:
    """A client that has finished the TLS handshake."""
    context = ssl.create_default_context(cafile=str(authority))
    stream = socket.create_connection(("127.0.0.1", port), timeout=raw.DEADLINE)
    return Peer(context.wrap_socket(stream, server_hostname="127.0.0.1"))


def test_listener(rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any]) -> None:
    proxy = start_proxy(rabbitmq.port, listen=[listen_tls])
    with secured(proxy.port, rabbitmq.certificates["authority"]) as client:
        client.handshake()
        client.send(raw.channel_open(1))
        client.expect(20, 11)
        assert client.declare()


def test_upstream(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(rabbitmq.tls_port, upstream=upstream_tls(rabbitmq))
    pika_client.publish_consume(Broker(proxy.port, rabbitmq.ctl))
    pika_client.big_bodies(Broker(proxy.port, rabbitmq.ctl))


def test_both(rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any]) -> None:
    proxy = start_proxy(rabbitmq.tls_port, listen=[listen_tls], upstream=upstream_tls(rabbitmq))
    before = proxy.descriptors()
    with secured(proxy.port, rabbitmq.certificates["authority"]) as client:
        client.handshake()
        client.send(raw.channel_open(1))
        client.expect(20, 11)
        name = client.declare()
        client.send(raw.message(1, name, bytes(1_000_000)), raw.consume(1, name))
        client.expect(60, 21)
        client.expect(60, 60)
        received = b""
        while len(received) < 1_000_000:
            frame = client.read()
            assert frame is not None
            received += frame.payload if frame.kind == raw.BODY else b""
        client.send(raw.connection_close())
        client.expect(10, 51)
    until(lambda: proxy.descriptors() <= before, "the proxy to let go")
    assert "Traceback" not in proxy.log


def _relayed_by(control: Path) -> str:
    """What relays the only connection."""
    with ControlClient(control) as client:
        (connection,) = client.ask("connections")["connections"]
    return str(connection["relayed_by"])


@pytest.mark.skipif(not is_available(), reason="needs compiled pumps, and an OpenSSL that is a library of its own")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_pump_relays_tls_on_both_legs(
    rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any], version: ssl.TLSVersion, tmp_path: Path
) -> None:
    """Idle and busy, and back with the event loop for a queue.delete, whose bytes the pump has received."""
    control = tmp_path / "control"
    proxy = start_proxy(
        rabbitmq.tls_port,
        listen=[listen_tls],
        upstream=upstream_tls(rabbitmq),
        control={"path": str(control)},
        threads=1,
    )
    context = ssl.create_default_context(cafile=str(rabbitmq.certificates["authority"]))
    context.maximum_version = version
    stream = socket.create_connection(("127.0.0.1", proxy.port), timeout=raw.DEADLINE)
    with Peer(context.wrap_socket(stream, server_hostname="127.0.0.1")) as client:
        client.handshake()
        client.send(raw.channel_open(1))
        client.expect(20, 11)
        name = client.declare()
        client.send(raw.consume(1, name))
        client.expect(60, 21)
        for _ in range(2):
            until(lambda: _relayed_by(control) == "pump", "a pump to take it")
            for size in (1, 100, 40_000, 1_000_000):
                client.send(raw.message(1, name, bytes([size % 251]) * size))
                client.expect(60, 60)
                received = b""
                while len(received) < size:
                    frame = client.read()
                    assert frame is not None
                    received += frame.payload if frame.kind == raw.BODY else b""
                assert received == bytes([size % 251]) * size
            client.declare()
        client.send(raw.connection_close())
        client.expect(10, 51)
    assert "Traceback" not in proxy.log


@pytest.mark.skipif(not is_available(), reason="needs compiled pumps, and an OpenSSL that is a library of its own")
def test_keys_are_updated_while_a_pump_relays(
    rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any], tmp_path: Path
) -> None:
    """TLS 1.3, RFC 8446, section 4.6.3: by `openssl s_client`, on a line K, which asks for an update in return."""
    control = tmp_path / "control"
    proxy = start_proxy(rabbitmq.port, listen=[listen_tls], control={"path": str(control)}, threads=1)
    ours, theirs = socket.socketpair()
    command = ["openssl", "s_client", "-brief", "-connect", f"127.0.0.1:{proxy.port}"]
    with (
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as openssl,
        Peer(ours) as client,
    ):
        theirs.close()
        client.handshake()
        client.send(raw.channel_open(1))
        client.expect(20, 11)
        name = client.declare()
        client.send(raw.consume(1, name))
        client.expect(60, 21)
        until(lambda: _relayed_by(control) == "pump", "a pump to take it")
        for _ in range(5):
            client.send(b"K\n")
            assert openssl.stderr is not None
            while b"KEYUPDATE" not in openssl.stderr.readline():
                pass
            client.send(raw.message(1, name, b"after it"))
            client.expect(60, 60)
            assert [client.read() for _ in range(2)][1] == raw.Frame(raw.BODY, 1, b"after it")
        assert _relayed_by(control) == "pump"
        openssl.kill()
    assert "Traceback" not in proxy.log


def test_a_certificate_that_is_not_trusted(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    """The system's authorities never signed it: the broker is not trusted, and the log has the reason."""
    proxy = start_proxy(rabbitmq.tls_port, upstream={"tls": {}})
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        assert client.receive(1) == b""
    until(lambda: "certificate" in proxy.log.lower(), "the reason in the log")
    assert "Traceback" not in proxy.log


def test_plain_text_on_a_tls_listener(rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any]) -> None:
    proxy = start_proxy(rabbitmq.port, listen=[listen_tls])
    before = proxy.descriptors()
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER * 10)
        client.receive(100)  # an alert, or nothing
        assert client.receive(1) == b""
    until(lambda: proxy.descriptors() <= before, "the proxy to let go")
    assert "Traceback" not in proxy.log


def test_tls_towards_a_broker_that_speaks_none(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(rabbitmq.port, upstream=upstream_tls(rabbitmq))
    with Peer.connect(proxy.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        assert client.receive(1) == b""
    assert "Traceback" not in proxy.log


def test_a_handshake_that_never_ends(rabbitmq: RabbitMQ, start_proxy: StartProxy, listen_tls: dict[str, Any]) -> None:
    proxy = start_proxy(rabbitmq.port, listen=[listen_tls], limits={"handshake_timeout": 1})
    before = proxy.descriptors()
    with Peer.connect(proxy.port) as client:
        client.send(b"\x16\x03\x01\x02\x00")
        assert client.receive(1) == b""
    until(lambda: proxy.descriptors() <= before, "the proxy to let go")
    assert "Traceback" not in proxy.log
