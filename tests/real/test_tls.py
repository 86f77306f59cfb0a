"""TLS on the listener and towards the broker, with a certificate authority made for the run."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

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
