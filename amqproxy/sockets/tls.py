"""TLS contexts from the files in the config; errors contain the name of the file."""

from __future__ import annotations

import ssl
from weakref import WeakKeyDictionary

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.tls_config import CertificateFiles, ClientTLS, ServerTLS
from amqproxy.sockets.certificate import common_name
from amqproxy.sockets.tls_socket import TlsSocket


def server_context(tls: ServerTLS) -> ssl.SSLContext:
    """Return the context of a listener; raise `ConfigError` if a file cannot be read or does not match. See `renew`."""
    context = _server_context(tls, tls)
    context.sni_callback = _choose_certificate
    named = [(_server_names(each.certificate), _server_context(tls, each)) for each in tls.certificates]
    _named[context] = {name: found for names, found in reversed(named) for name in names}
    _files[context] = tls
    return context


def _server_context(tls: ServerTLS, files: CertificateFiles) -> ssl.SSLContext:
    """Return the context of a listener for one of its certificates."""
    context = _context(ssl.Purpose.CLIENT_AUTH, tls)
    context.num_tickets = 0  # Java's NIO client fails on a ticket after the handshake; RabbitMQ sends none
    _load_certificate(context, files.certificate, files.key)
    if tls.client_ca:
        _load_authority(context, tls.client_ca)
        is_required = tls.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    if tls.client_crl:
        _load_authority(context, tls.client_crl, "no certificate revocation list")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _server_names(certificate: str) -> list[str]:
    """Return the DNS names for which a certificate is, in lower case; its subject's common name if there are none."""
    try:
        found = ssl._ssl._test_decode_cert(certificate)  # type: ignore[attr-defined] # the only reader in the library
    except (OSError, ValueError) as error:
        raise ConfigError(f"{certificate}: not a certificate in PEM: {error}") from None
    names = [name for kind, name in found.get("subjectAltName", ()) if kind == "DNS"]
    return [name.lower() for name in names or filter(None, [common_name(found)])]


def expiry(file: str) -> float | None:
    """Return when the first certificate in a file expires, as a Unix time; `None` if the file has none."""
    try:
        found = ssl._ssl._test_decode_cert(file)  # type: ignore[attr-defined] # as in `_server_names`
    except (OSError, ValueError):
        return None
    return float(ssl.cert_time_to_seconds(found["notAfter"]))


def renew(context: ssl.SSLContext) -> None:
    """Reload the files of a `server_context`, for new handshakes; if they are wrong, raise `ConfigError` without a
    change.
    """
    _renewed[context] = server_context(_files[context])


def files_of(context: ssl.SSLContext) -> tuple[str, ...]:
    """Return the files of a `server_context`."""
    return _files[context].files


_files: WeakKeyDictionary[ssl.SSLContext, ServerTLS] = WeakKeyDictionary()
_renewed: WeakKeyDictionary[ssl.SSLContext, ssl.SSLContext] = WeakKeyDictionary()
"""Replacement of each context whose files were reloaded."""
_named: WeakKeyDictionary[ssl.SSLContext, dict[str, ssl.SSLContext]] = WeakKeyDictionary()
"""The contexts of a listener's further certificates, by their names, of which the first label may be `*`."""


def _choose_certificate(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    """Choose the certificate for the requested server name, and store the name.

    Called in each handshake, even if the client requests no name.
    """
    if isinstance(connection, TlsSocket):
        connection.requested_name = name or ""
    newest = _renewed.get(context, context)
    name = (name or "").lower()
    named = _named[newest]
    chosen = named.get(name) or named.get("*." + name.partition(".")[2]) or newest
    if chosen is not context:
        connection.context = chosen


def client_context(tls: ClientTLS) -> ssl.SSLContext:
    """Return the context for connections to the broker; raise `ConfigError` if a file cannot be read or does not
    match.
    """
    context = _context(ssl.Purpose.SERVER_AUTH, tls)
    if tls.ca:
        _load_authority(context, tls.ca)
    if tls.certificate:
        _load_certificate(context, tls.certificate, tls.key)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _context(purpose: ssl.Purpose, tls: ServerTLS | ClientTLS) -> ssl.SSLContext:
    """Return a context that verifies equally on every version of Python, whose defaults changed with 3.13.

    Strict verification refuses authorities without keyUsage, as many companies have; RabbitMQ and HAProxy accept them.
    Any certificate in the file of authorities is trusted, even an intermediate one, as in curl and Go.
    """
    context = verifying_alike(ssl.create_default_context(purpose), is_strict=tls.strict)
    # A handshake in the middle of a connection would stop a pump. Many clients close without close_notify, and an AMQP
    # connection that is cut off is noticed without it.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


def verifying_alike(context: ssl.SSLContext, *, is_strict: bool = False) -> ssl.SSLContext:
    """Set and return the context's settings that differ between builds of Python; see `_context`.

    TLS 1.2 is the least: Debian's Python leaves that to the system's configuration.
    """
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT
    context.verify_flags = flags | ssl.VERIFY_X509_PARTIAL_CHAIN | (ssl.VERIFY_X509_STRICT if is_strict else 0)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise ConfigError(f"{files}: not a certificate and its key in PEM: {error}") from None


def _no_password() -> str:
    """Refuse an encrypted key, since a daemon must not ask for a password on a terminal."""
    raise ValueError("the key is encrypted; amqproxy takes keys without a password only")


def _load_authority(context: ssl.SSLContext, authority: str, fault: str = "no certificates") -> None:
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{authority}: {fault} in PEM: {error}") from None
