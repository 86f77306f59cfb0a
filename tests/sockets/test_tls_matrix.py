"""Each wrong certificate and old version is refused in words, on both legs; `openssl` plays the peer."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer, Unreachable
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, TransportBroken, plain_socket
from tests.real.poll import until
from tests.real.ports import free_port
from tests.sockets.tls_certificates import REFUSED, Certificates

VERSIONS = ("-tls1_2", "-tls1_3")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@contextmanager
def broker(file: str, *options: str) -> Iterator[int]:
    """Yield the port of `openssl s_server` with this certificate."""
    port = free_port()
    command = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", file, "-key", file, "-cert_chain", file]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([*command, "-quiet", *options, "-cipher", "ALL@SECLEVEL=0"], **quiet)
    try:
        until(lambda: server.poll() is None and listens(port), "openssl to listen")
        yield port
    finally:
        server.kill()
        server.wait()


async def dialled(port: int, authority: str) -> str:
    """Connect to a broker; return "" or why it was refused."""
    tls = ClientTLS(ca=authority, server_name="localhost")
    dial = Dialer(UpstreamConfig(address=f"127.0.0.1:{port}", tls=tls), 10.0)
    try:
        transport = await dial()
    except Unreachable as error:
        assert dial.handshakes == 0
        return f"{error.kind}: {error}"
    await transport.aclose()
    assert dial.handshakes == 1
    return ""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["good", "intermediate", *REFUSED])
async def test_brokers(kind: str, version: str, certificates: Certificates) -> None:
    with broker(certificates.files[kind], version) as port:
        refusal = await dialled(port, certificates.authority)
    if kind in REFUSED:
        assert refusal.startswith("tls: ")
        assert refusal.endswith(f"the peer's certificate is refused: {REFUSED[kind]}")
    else:
        assert refusal == ""


async def test_a_broker_that_speaks_only_an_old_version(certificates: Certificates) -> None:
    with broker(certificates.files["good"], "-tls1_1") as port:
        refusal = await dialled(port, certificates.authority)
    assert "version" in refusal or "protocol" in refusal


async def received(certificates: Certificates, *options: str) -> str:
    """Let `openssl s_client` connect with these options; return "" or why it was refused."""
    good = certificates.files["good"]
    tls = ServerTLS(
        certificate=good,
        key=good,
        client_ca=certificates.authority,
        client_crl=certificates.revocations,
    )
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-cipher", "ALL@SECLEVEL=0", *options]
    refusal = ""
    async with listener:
        client = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        accepted = plain_socket(await listener.accept())
        transport = SocketTransport(secured(accepted, server_context(tls), server_side=True))
        try:
            await transport.secure(10.0)
            await transport.aclose()
        except TransportBroken as error:
            refusal = str(error)
        client.kill()
        await client.wait()
    assert client.stdin is not None
    await client.stdin.aclose()
    return refusal


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["good", "revoked", *REFUSED])
async def test_clients(kind: str, version: str, certificates: Certificates) -> None:
    file = certificates.files[kind]
    refusal = await received(certificates, version, "-cert", file, "-key", file)
    reasons = REFUSED | {"revoked": "certificate revoked", "wrong name": ""}  # the name is for logins to judge
    reason = reasons.get(kind)
    assert refusal == (f"the peer's certificate is refused: {reason}" if reason else "")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_without_a_certificate(version: str, certificates: Certificates) -> None:
    assert "peer did not return a certificate" in await received(certificates, version)


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
async def test_a_client_that_speaks_only_an_old_version(version: str, certificates: Certificates) -> None:
    assert "unsupported protocol" in await received(certificates, version)
