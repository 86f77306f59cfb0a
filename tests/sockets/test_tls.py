"""TLS on either leg: real certificates, and files that are not what the config expects."""

import gc
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.tls_config import CertificateFiles, ClientTLS, ServerTLS
from amqproxy.sockets.tls import client_context, files_of, renew, server_context
from amqproxy.sockets.tls_socket import TlsSocket, secured
from amqproxy.sockets.transport import SocketTransport, TransportBroken
from tests.proxy.stage import connected
from tests.sockets.certificate_files import Files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


def transports(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost"
) -> tuple[SocketTransport, SocketTransport]:
    """A server's end and a client's, before their handshake."""
    ends = connected(tcp=True)
    ours = SocketTransport(secured(ends[0], server, server_side=True))
    return ours, SocketTransport(secured(ends[1], client, server_hostname=name))


async def shaken(ours: SocketTransport, theirs: SocketTransport) -> None:
    """Complete the handshake of both ends."""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.secure)
            nursery.start_soon(theirs.secure)


async def talk(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> bytes:
    """What a server receives from a client over TLS."""
    ours, theirs = transports(server, client, name)
    received = b""
    try:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def greet() -> None:
                try:
                    await theirs.secure()
                    await theirs.send(b"hello")
                    await theirs.send_eof()
                except TransportBroken:
                    await theirs.aclose()

            with trio.fail_after(5):
                await ours.secure()
                while data := await ours.receive():
                    received += data
    finally:
        for end in (ours, theirs):
            await end.aclose()
    return received


async def test_a_broker_that_is_who_it_should_be(files: Files) -> None:
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    assert await talk(server, client_context(ClientTLS(ca=files.ca))) == b"hello"


async def test_a_closed_connection_does_not_wait_for_the_garbage_collector(files: Files) -> None:
    """OpenSSL has 45 KiB of each."""
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    client = client_context(ClientTLS(ca=files.ca))

    def sockets() -> int:
        return sum(isinstance(each, TlsSocket) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = sockets()
        assert await talk(server, client) == b"hello"
        await trio.lowlevel.checkpoint()  # trio keeps what it cancelled last
        assert sockets() == before
    finally:
        gc.enable()


async def test_what_was_closed_before_its_handshake_has_none(files: Files) -> None:
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    end, other = connected(tcp=True)
    other.close()
    transport = SocketTransport(secured(end, server, server_side=True))
    await transport.aclose()
    with pytest.raises(TransportBroken, match="closed here"):
        await transport.receive()
    with pytest.raises(TransportBroken, match="closed here"):
        await transport.secure()


async def test_a_broker_whose_certificate_is_not_trusted(files: Files) -> None:
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    received, others = b"", None
    try:
        received = await talk(server, client_context(ClientTLS()))
    except ExceptionGroup as group:  # whether the alert or the end is read first differs by Python's version
        others = group.split(TransportBroken)[1]
    assert (received, others) == (b"", None)
    assert await talk(server, client_context(ClientTLS(verify=False)), name="other") == b"hello"


async def test_a_client_must_show_a_certificate_where_that_is_asked(files: Files) -> None:
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key, client_ca=files.ca))
    with pytest.RaisesGroup(pytest.RaisesExc(TransportBroken, match="(?i)certificate"), flatten_subgroups=True):
        await talk(server, client_context(ClientTLS(ca=files.ca)))
    known = ClientTLS(ca=files.ca, certificate=files.client, key=files.client_key)
    assert await talk(server, client_context(known)) == b"hello"


async def test_a_client_may_show_a_certificate_where_that_is_optional(files: Files) -> None:
    config = ServerTLS(
        certificate=files.server, key=files.server_key, client_ca=files.ca, client_certificate="optional"
    )
    assert await talk(server_context(config), client_context(ClientTLS(ca=files.ca))) == b"hello"
    known = ClientTLS(ca=files.ca, certificate=files.client, key=files.client_key)
    assert await talk(server_context(config), client_context(known)) == b"hello"
    stranger = ClientTLS(ca=files.ca, certificate=files.stranger, key=files.stranger_key)
    with pytest.RaisesGroup(pytest.RaisesExc(TransportBroken, match="(?i)certificate"), flatten_subgroups=True):
        await talk(server_context(config), client_context(stranger))


def test_an_optional_certificate_without_an_authority() -> None:
    with pytest.raises(ValueError, match="needs the client_ca"):
        ServerTLS(certificate="a.pem", key="a.key", client_certificate="optional")


async def test_no_session_tickets_are_sent(files: Files) -> None:
    """Java's NIO client does not expect any bytes between the handshake and connection.start."""
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    ours, theirs = transports(server, client_context(ClientTLS(ca=files.ca)))
    await shaken(ours, theirs)
    await ours.send(b"hello")
    with trio.fail_after(5):
        assert await theirs.receive() == b"hello"
    assert theirs.tls is not None
    assert theirs.tls.version() == "TLSv1.3"
    assert theirs.tls.session is not None
    assert not theirs.tls.session.has_ticket
    for end in (ours, theirs):
        await end.aclose()


def test_files_that_are_not_there_or_do_not_fit(files: Files, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    for tls in (
        ServerTLS(certificate=missing, key=files.server_key),
        ServerTLS(certificate=files.server, key=missing),
        ServerTLS(certificate=files.server, key=files.server_key, client_ca=missing),
    ):
        with pytest.raises(ConfigError, match=r"missing\.pem"):
            server_context(tls)
    with pytest.raises(ConfigError, match=r"server\.pem and .*client\.key: not a certificate and its key"):
        server_context(ServerTLS(certificate=files.server, key=files.client_key))
    with pytest.raises(ConfigError, match=r"server\.key: no certificates"):
        client_context(ClientTLS(ca=files.server_key))
    with pytest.raises(ConfigError, match=r"client\.pem: not a certificate"):
        client_context(ClientTLS(certificate=files.client))


def test_an_encrypted_key_asks_for_no_password(files: Files, tmp_path: Path) -> None:
    key = tmp_path / "locked.key"
    plain = load_pem_private_key(Path(files.server_key).read_bytes(), None)
    form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret"))
    key.write_bytes(plain.private_bytes(*form))
    with pytest.raises(ConfigError, match=r"locked\.key: .* without a password only"):
        server_context(ServerTLS(certificate=files.server, key=str(key)))


async def test_what_a_client_sends_about_itself_in_the_handshake(files: Files) -> None:
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key, client_ca=files.ca))
    client = client_context(ClientTLS(ca=files.ca, certificate=files.client, key=files.client_key))
    ours, theirs = transports(server, client)
    assert ours.tls is not None
    assert (ours.tls.subject, ours.tls.requested_name) == ("", None)
    await shaken(ours, theirs)
    assert ours.tls.requested_name == "localhost"
    assert ours.tls.subject.startswith("OU=Testing cert")
    for end in (ours, theirs):
        await end.aclose()


async def shown_name(context: ssl.SSLContext, requested: str) -> str:
    """Common name or DNS name of the certificate that a client is shown that requests this server name."""
    client = client_context(ClientTLS(verify=False))
    ours, theirs = transports(context, client, requested)
    await shaken(ours, theirs)
    assert theirs.tls is not None
    shown = x509.load_der_x509_certificate(theirs.tls.getpeercert(binary_form=True) or b"")
    for end in (ours, theirs):
        await end.aclose()
    return shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    )[0]


async def test_the_certificate_is_the_one_for_the_requested_name(files: Files, tmp_path: Path) -> None:
    def further(*names: str) -> CertificateFiles:
        issued = trustme.CA().issue_cert(*names)
        path = tmp_path / f"{names[0]}-{len(names)}.pem"
        path.write_bytes(issued.private_key_pem.bytes() + issued.cert_chain_pems[0].bytes())
        return CertificateFiles(certificate=str(path), key=str(path))

    more = further("blue.example", "*.blue.example"), further("Green.example"), further("blue.example")
    config = ServerTLS(certificate=files.server, key=files.server_key, certificates=more)
    context = server_context(config)
    assert files_of(context) == (files.server, files.server_key, *(file for each in more for file in (each.key,) * 2))
    assert await shown_name(context, "blue.example") == "blue.example"
    assert await shown_name(context, "a.Blue.example") == "blue.example"
    assert await shown_name(context, "GREEN.example") == "green.example"
    for other in ("a.b.blue.example", "localhost", "example", "*.blue"):
        assert await shown_name(context, other) == "localhost"
    renewed = trustme.CA().issue_cert("new.example")
    (tmp_path / "Green.example-1.pem").write_bytes(renewed.private_key_pem.bytes() + renewed.cert_chain_pems[0].bytes())
    renew(context)
    assert await shown_name(context, "green.example") == "localhost"
    assert await shown_name(context, "new.example") == "new.example"
    (tmp_path / "Green.example-1.pem").write_text("not one")
    with pytest.raises(ConfigError, match="not a certificate"):
        renew(context)
    assert await shown_name(context, "new.example") == "new.example"


async def test_a_client_with_a_revoked_certificate_is_refused(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, good, revoked = (authority.issue_cert(name) for name in ("localhost", "a@example", "b@example"))
    paths = {}
    for name, issued in (("server", server), ("good", good), ("revoked", revoked)):
        paths[name] = tmp_path / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(paths[name])
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    now = datetime.now(UTC)
    entry = x509.RevokedCertificateBuilder().revocation_date(now)
    serial = x509.load_pem_x509_certificate(revoked.cert_chain_pems[0].bytes()).serial_number
    listed = x509.CertificateRevocationListBuilder().last_update(now).next_update(now + timedelta(days=1))
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    key = load_pem_private_key(authority.private_key_pem.bytes(), None)
    signed = listed.issuer_name(issuer).add_revoked_certificate(entry.serial_number(serial).build()).sign(key, SHA256())
    crl = tmp_path / "crl.pem"
    crl.write_bytes(signed.public_bytes(Encoding.PEM))
    own = {"certificate": str(paths["server"]), "key": str(paths["server"]), "client_ca": str(ca)}
    context = server_context(ServerTLS(**own, client_crl=str(crl)))
    assert await talk(context, client_context(ClientTLS(ca=str(ca), certificate=str(paths["good"])))) == b"hello"
    with pytest.RaisesGroup(pytest.RaisesExc(TransportBroken, match="(?i)revoked"), flatten_subgroups=True):
        await talk(context, client_context(ClientTLS(ca=str(ca), certificate=str(paths["revoked"]))))
    with pytest.raises(ConfigError, match="no certificate revocation list"):
        server_context(ServerTLS(**own, client_crl=str(tmp_path / "none.pem")))
    with pytest.raises(ValueError, match="client_crl needs the client_ca"):
        ServerTLS(certificate="a", key="b", client_crl="c")
