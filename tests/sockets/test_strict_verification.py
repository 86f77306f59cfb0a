"""Certificates without the extensions of RFC 5280: taken by default on every Python, refused and named if strict."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.sockets.strict_verification import FAULTS, strict_refusal
from amqproxy.sockets.tls import client_context, server_context
from tests.sockets.authority import Authority


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Why the handshake failed, as the proxy words it; "" where it did not."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(one, other, server_hostname="localhost"),
        server.wrap_bio(other, one, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return strict_refusal(error, end, end.context) or str(error)
    return ""


@pytest.mark.parametrize("lacks", ["keyUsage", "authorityKeyIdentifier", "subjectKeyIdentifier", "critical"])
def test_an_authority_of_a_company_is_taken_by_default(lacks: str, tmp_path: Path) -> None:
    """Python 3.13 made strict verification its default; RabbitMQ and HAProxy take such certificates."""
    own = Authority(tmp_path, lacks)
    tls = ServerTLS(certificate=own.leaf, key=own.key, client_ca=own.root)
    client = client_context(ClientTLS(ca=own.root, certificate=own.leaf, key=own.key))
    assert handshake(server_context(tls), client) == ""


@pytest.mark.parametrize(
    ("lacks", "named"),
    [
        ("keyUsage", ("CN=Corp Issuing CA", "keyUsage")),
        ("authorityKeyIdentifier", ("CN=localhost", "authorityKeyIdentifier")),
        ("subjectKeyIdentifier", ("CN=Corp Issuing CA", "subjectKeyIdentifier")),
        ("critical", ("CN=Corp Issuing CA", "a critical basicConstraints")),
    ],
)
@pytest.mark.parametrize("side", ["client", "server"])
def test_strict_verification_names_the_certificate_and_the_extension(
    side: str, lacks: str, named: tuple[str, str], tmp_path: Path
) -> None:
    own = Authority(tmp_path, lacks)
    server = server_context(ServerTLS(certificate=own.leaf, key=own.key, client_ca=own.root, strict=side == "server"))
    client = client_context(ClientTLS(ca=own.root, certificate=own.leaf, key=own.key, strict=side == "client"))
    found = handshake(server, client)
    # OpenSSL gives a server the client's certificates only once they are verified; the file of authorities is known.
    whose = "the certificate of 'CN=Corp CA'" if side == "server" else f"the certificate of '{named[0]}'"
    assert found.startswith(f"{whose} lacks {named[1]}, which tls.strict requires (")


def test_strict_verification_takes_what_has_all_extensions(tmp_path: Path) -> None:
    own = Authority(tmp_path)
    server = server_context(ServerTLS(certificate=own.leaf, key=own.key, client_ca=own.root, strict=True))
    client = client_context(ClientTLS(ca=own.root, certificate=own.leaf, key=own.key, strict=True))
    assert handshake(server, client) == ""


def test_an_intermediate_authority_is_trusted_where_the_file_has_only_that(tmp_path: Path) -> None:
    own = Authority(tmp_path)
    server = server_context(ServerTLS(certificate=own.leaf, key=own.key))
    assert handshake(server, client_context(ClientTLS(ca=own.middle))) == ""


def test_what_strict_verification_does_not_look_for_is_told_as_openssl_does(tmp_path: Path) -> None:
    own, other = Authority(tmp_path), tmp_path / "other"
    other.mkdir()
    server = server_context(ServerTLS(certificate=own.leaf, key=own.key))
    client = client_context(ClientTLS(ca=Authority(other, "keyUsage").root, strict=True))
    assert "unable to get" in handshake(server, client) or "signature failure" in handshake(server, client)
    assert all(len(each.encoded) >= 5 for each in FAULTS.values())
