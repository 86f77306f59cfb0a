"""TLS records in a pump's thread: OpenSSL's connection of a `TlsSocket`, read and written without the interpreter.

Handshakes are done by the session, in Python. What may follow them in a TLS 1.3 connection, session tickets and updates
of keys (RFC 8446, section 4.6), OpenSSL processes while it reads. `is_available` says whether this Python's OpenSSL can
be called: it is a library of its own, as on all Linux distributions and in the official images.
"""

from __future__ import annotations

import _ssl
import os
import ssl
import sys

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_KNOWN_LAYOUTS = ((3, 11), (3, 14))
"""First and last version of CPython whose `PySSLSocket` begins as the `.pxd` says."""


@cython.cfunc
def connection_of(sock: object) -> VoidPointer:
    """Return OpenSSL's connection of a `TlsSocket`, prepared for `receive_tls` and `send_tls`.

    It lives as long as the socket's `_sslobj`. `ValueError` if the socket has none.
    """
    inner = sock._sslobj
    found: VoidPointer = cython.NULL
    if type(inner) is _ssl._SSLSocket:
        found = ssl_of(inner, inner.context)
    if found == cython.NULL:
        raise ValueError("not a TLS connection")
    prepare(found)
    return found


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def receive_tls(
    connection: VoidPointer, into: BytePointer, size: cython.size_t, is_unfinished: IntPointer, failure: IntPointer
) -> cython.longlong:
    """Receive and decrypt up to `size` bytes; return their number, 0 at the end, or -1 with `errno`, as `recv` does.

    Sets `is_unfinished` if the next call would not wait, whatever epoll reports. `failure` is 0 at first, and then what
    follows the returned bytes: an errno, or -1 at the end.
    """
    return tls_read(connection, into, size, is_unfinished, failure)


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def send_tls(connection: VoidPointer, data: ConstBytePointer, size: cython.size_t) -> cython.longlong:
    """Encrypt and send bytes; return the number of those sent, or -1 with `errno`, as `send` does.

    After fewer than `size`, the next call must begin with the remaining bytes, at any address.
    """
    return tls_write(connection, data, size)


def bound_reads(sock: object) -> None:
    """Make each read of a `TlsSocket` end after records without data; if OpenSSL cannot be called, do nothing.

    Otherwise a client that sends only key updates keeps OpenSSL, and so the event loop, from returning.
    """
    inner = sock._sslobj
    found: VoidPointer
    if _IS_AVAILABLE and type(inner) is _ssl._SSLSocket:
        found = ssl_of(inner, inner.context)
        if found != cython.NULL:
            bound_reads_of(found)


@cython.ccall
def is_available() -> cython.bint:
    """Whether pumps can relay TLS connections: they are compiled, and can call the OpenSSL of this Python."""
    return _IS_AVAILABLE


def _is_available() -> bool:
    version = sys.version_info[:2]
    if not cython.compiled or sys.implementation.name != "cpython" or not hasattr(_ssl, "__file__"):
        return False
    if not _KNOWN_LAYOUTS[0] <= version <= _KNOWN_LAYOUTS[1] or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    if ssl.OPENSSL_VERSION_INFO < (1, 1, 1) or not load_openssl(os.fsencode(_ssl.__file__)):
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inner = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)._sslobj
    return ssl_of(inner, inner.context) != cython.NULL


_IS_AVAILABLE = _is_available()
