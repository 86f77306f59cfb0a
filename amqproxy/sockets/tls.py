"""TLS contexts from the config's files; errors contain the name of the file."""

from __future__ import annotations

import ssl
from contextlib import suppress
from weakref import WeakKeyDictionary

import trio

from amqproxy.configuration.config import ClientTLS, ConfigError, ServerTLS


def server_context(tls: ServerTLS) -> ssl.SSLContext:
    """For a listener. `ConfigError` when a file cannot be read or does not fit. `renew` reads them again."""
    context = _context(ssl.Purpose.CLIENT_AUTH, tls)
    context.sni_callback = _store_server_name
    context.num_tickets = 0  # Java's NIO client never gets over a ticket after the handshake; RabbitMQ sends none
    _load_certificate(context, tls.certificate, tls.key)
    if tls.client_ca:
        _load_authority(context, tls.client_ca)
        is_required = tls.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    _files[context] = tls
    return context


def renew(context: ssl.SSLContext) -> None:
    """Read the files of a `server_context` again, for the handshakes to come. `ConfigError`, and no change, when they
    are not right."""
    _renewed[context] = server_context(_files[context])


def files_of(context: ssl.SSLContext) -> tuple[str, ...]:
    """The files of a `server_context`."""
    tls = _files[context]
    return tuple(each for each in (tls.certificate, tls.key, tls.client_ca) if each)


_files: WeakKeyDictionary[ssl.SSLContext, ServerTLS] = WeakKeyDictionary()
_renewed: WeakKeyDictionary[ssl.SSLContext, ssl.SSLContext] = WeakKeyDictionary()
"""What stands in for a context since its files were read again."""
_asked: WeakKeyDictionary[ssl.SSLObject, str] = WeakKeyDictionary()


def _store_server_name(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    """Called in each handshake, whether the client asks for a name or not."""
    _asked[connection] = name or ""
    renewed = _renewed.get(context)
    if renewed is not None:
        connection.context = renewed


def asked_name(stream: trio.SSLStream[trio.SocketStream]) -> str:
    """The server name that the client of a `server_context` has asked for in its handshake; "" for none."""
    return _asked.get(stream._ssl_object, "")  # trio has no other way to what the callback is given


def has_greeted(stream: trio.SSLStream[trio.SocketStream]) -> bool:
    """Whether the client of a `server_context` has sent its ClientHello."""
    return stream._ssl_object in _asked


def make_freeable(stream: trio.SSLStream[trio.SocketStream]) -> None:
    """Have a stream that was closed go as soon as it is not used any more, with the 45 KiB that OpenSSL has of it.

    trio's refers to itself, by what is to do its handshake; so only the garbage collector would free it.
    """
    with suppress(AttributeError):  # another trio may do without
        stream._handshook._afn = _refuse


async def _refuse(*_: object) -> None:
    raise trio.ClosedResourceError


def client_context(tls: ClientTLS) -> ssl.SSLContext:
    """For the way to the broker. `ConfigError` when a file cannot be read or does not fit."""
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
    """A context that verifies alike on every version of Python, whose defaults changed with 3.13.

    Strict verification refuses authorities without keyUsage, as many companies have: RabbitMQ and HAProxy take them.
    Any certificate of the file of authorities is trusted, also one between a root and the peer, as curl and Go do.
    """
    return verifying_alike(ssl.create_default_context(purpose), is_strict=tls.strict)


def verifying_alike(context: ssl.SSLContext, *, is_strict: bool = False) -> ssl.SSLContext:
    """Set the flags of a context whose defaults differ between versions of Python; see `_context`. Return it."""
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
    """A daemon must not stop to ask on a terminal for the password of a key."""
    raise ValueError("the key is encrypted; amqproxy takes keys without a password only")


def _load_authority(context: ssl.SSLContext, authority: str) -> None:
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{authority}: no certificates in PEM: {error}") from None
