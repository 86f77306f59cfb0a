"""The way to the broker: what comes of each way in which it can be closed."""

import socket

import pytest
import trio
from trio.testing import MockClock

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer, Unreachable
from amqproxy.sockets.proxy_protocol import header
from amqproxy.sockets.transport import SocketTransport


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_broker_that_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = await Dialer(UpstreamConfig(address=address_of(listener)), timeout=5.0)()
        accepted, _ = listener.accept()
    assert isinstance(transport, SocketTransport)
    assert transport._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    with accepted:
        await transport.send(b"hello")
        assert accepted.recv(10) == b"hello"
    await transport.aclose()


async def test_a_broker_that_receives_the_address_of_the_client() -> None:
    client, listens = ("10.1.2.3", 40000), ("10.0.0.1", 5673)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialer = Dialer(UpstreamConfig(address=address_of(listener), proxy_protocol=True), timeout=5.0)
        for given in ((client, listens), None):
            transport = await dialer(given)
            accepted, here = listener.accept()
            with accepted:
                ends = given or (here, listener.getsockname())
                assert accepted.recv(100) == header(*ends)
            await transport.aclose()
        plain = Dialer(UpstreamConfig(address=address_of(listener)), timeout=5.0)
        transport = await plain((client, listens))
        await transport.send(b"hello")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b"hello"
        await transport.aclose()


async def test_a_broker_that_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = address_of(listener)
    with pytest.raises(Unreachable, match=f"^{address} refused the connection; is the broker up") as raised:
        await Dialer(UpstreamConfig(address=address), timeout=5.0)()
    assert raised.value.kind == "refused"


class Nowhere(trio.abc.HostnameResolver):
    """Finds no host, or only a port without a listener, at several addresses, or never answers."""

    def __init__(self, addresses: list[tuple[str, int]] | None, error: Exception | None = None) -> None:
        self.addresses = addresses
        self.error = error

    async def getaddrinfo(self, *_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # type: ignore[override]
        if self.error:
            raise self.error
        if self.addresses is None:
            await trio.sleep_forever()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in self.addresses or []]

    async def getnameinfo(self, *_: object) -> tuple[str, str]:  # type: ignore[override]
        raise NotImplementedError


async def test_an_unknown_name() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    trio.socket.set_custom_hostname_resolver(Nowhere([], error))
    with pytest.raises(Unreachable, match=r"^broker:5672 cannot be reached: Name or service not known$") as raised:
        await Dialer(UpstreamConfig(address="broker:5672"), timeout=5.0)()
    assert raised.value.kind == "unreachable"


async def test_a_name_that_cannot_be_one() -> None:
    address = f"{'x' * 64}.example:5672"
    trio.socket.set_custom_hostname_resolver(None)
    with pytest.raises(Unreachable, match="cannot be reached: ") as raised:
        await Dialer(UpstreamConfig(address=address), timeout=5.0)()
    assert raised.value.kind == "unreachable"


async def test_a_name_with_two_addresses_both_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    trio.socket.set_custom_hostname_resolver(Nowhere([("127.0.0.1", port), ("127.0.0.2", port)]))
    with pytest.raises(Unreachable, match=r"^broker:5672 refused the connection") as raised:
        await Dialer(UpstreamConfig(address="broker:5672"), timeout=5.0)()
    assert raised.value.kind == "refused"


async def test_a_broker_that_does_not_answer(autojump_clock: MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Nowhere(None))
    with pytest.raises(Unreachable, match=r"^broker:5672 did not accept within 5 s$") as raised:
        await Dialer(UpstreamConfig(address="broker:5672"), timeout=5.0)()
    assert raised.value.kind == "timeout"


@pytest.mark.parametrize("answer", [b"", b"AMQP\0\0\x09\1"])
async def test_a_broker_that_does_not_speak_tls(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                accepted.sendall(answer)

        dial = Dialer(UpstreamConfig(address=address_of(listener), tls=ClientTLS()), timeout=5.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, serve)
            with pytest.raises(Unreachable, match="failed the TLS handshake: ") as raised:
                await dial()
    assert raised.value.kind == "tls"


def test_files_are_read_before_the_first_client_comes() -> None:
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        Dialer(UpstreamConfig(tls=ClientTLS(ca="missing.pem")), timeout=5.0)
