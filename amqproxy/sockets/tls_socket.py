"""A non-blocking socket over TLS with the interface of a plain one."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from amqproxy.sockets.certificate import distinguished_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

RECORD = 16 * 1024
"""Maximum bytes of application data in a TLS record (RFC 8446, section 5.1)."""

CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Exceptions for a peer that closed without close_notify, as many do: the second up to Python 3.11.2."""

_BLOCKED = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsSocket(ssl.SSLSocket):
    """A non-blocking TLS socket that receives and sends like a plain one; `secured` creates it.

    It raises `BlockingIOError` where it would block, and returns b"" once the peer has closed, with or without
    close_notify. Fewer bytes than asked for mean that the system has no more. OpenSSL works on the descriptor itself,
    not on buffers in memory, so that a pump can take its connection over (`amqproxy.pump.tls_records`).

    After a send that took fewer bytes than given, OpenSSL has encrypted the following ones, up to a record: until they
    are sent, a send of other bytes raises `BlockingIOError`.
    """

    _sslobj: Any  # of the standard library's class; None before a peer is connected, and once closed

    requested_name: str | None = None
    """The server name requested by a client of a `tls.server_context`, "" for none; `None` before its ClientHello."""

    _has_ended = False
    _failure: OSError | None = None
    _encrypted = b""
    """Bytes of a send that would block, which OpenSSL has encrypted already."""
    _ahead = 0
    """Number of bytes that were sent, but not yet counted as such in the result of a send."""

    @property
    def subject(self) -> str:
        """Subject of the peer's certificate, as RFC 4514 writes it; "" without one, or before the handshake."""
        try:
            return distinguished_name(self.getpeercert() or {}) or ""
        except (OSError, ValueError):
            return ""

    @property
    def is_over(self) -> bool:
        """Whether the next `recv` returns the end, or raises an error."""
        return self._has_ended or self._failure is not None

    def do_handshake(self, block: bool = False) -> None:
        if self._sslobj is None:
            gone = errno.EBADF if self.fileno() < 0 else errno.ECONNRESET  # already when the socket was secured
            raise OSError(gone, os.strerror(gone))
        super().do_handshake(block)

    def recv(self, buflen: int = RECORD, flags: int = 0) -> bytes:
        connection = self._sslobj
        if connection is None:
            return super().recv(buflen, flags)
        if self._failure is not None:
            raise self._failure
        pieces: list[bytes] = []
        left = buflen
        try:
            while left and not self._has_ended:
                piece = connection.read(min(left, RECORD))
                self._has_ended = not piece
                pieces.append(piece)
                left -= len(piece)
        except _BLOCKED:
            if not pieces:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        except CLOSED:
            self._has_ended = True
        except OSError as error:
            if not pieces:
                raise
            self._failure = error
        return b"".join(pieces)

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        connection = self._sslobj
        if connection is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        view = memoryview(data)
        sent = min(self._ahead, len(view))
        self._ahead -= sent
        is_blocked = not self._encrypted.startswith(view[sent : sent + len(self._encrypted)])
        try:
            while sent < len(view) and not is_blocked:
                if self._encrypted:  # OpenSSL wants the same bytes again, of which fewer may be given now
                    written = connection.write(self._encrypted)
                    self._encrypted = b""
                    self._ahead = max(0, written - (len(view) - sent))
                    sent += written - self._ahead
                else:
                    sent += connection.write(view[sent : sent + RECORD])
        except _BLOCKED:
            self._encrypted = self._encrypted or bytes(view[sent : sent + RECORD])
            is_blocked = True
        if is_blocked and not sent:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        return sent

    def sendmsg(self, pieces: Iterable[bytes | memoryview], *_: object) -> int:  # type: ignore[override]
        joined = bytearray()
        sent = size = 0
        try:
            for piece in pieces:
                joined += piece
                size += len(piece)
                if len(joined) >= RECORD:
                    sent += self.send(joined)
                    joined = bytearray()
                    if sent < size:
                        return sent
            return sent + self.send(joined)
        except BlockingIOError:
            if not sent:
                raise
            return sent

    def shutdown(self, how: int) -> None:
        """With SHUT_WR, send close_notify and close the TCP connection's sending half.

        Bytes that the peer sends afterwards are received; those that it has sent before, and are not read, may be lost.
        """
        if self._sslobj is not None and how == socket.SHUT_WR:
            with suppress(OSError):  # the peer has not closed yet, or is gone
                self._sslobj.shutdown()
            socket.socket.shutdown(self, how)
        else:
            super().shutdown(how)


def secured(
    sock: socket.socket, context: ssl.SSLContext, *, server_hostname: str | None = None, server_side: bool = False
) -> TlsSocket:
    """Return the TLS form of a connected socket, which must not be used any more; its handshake is still to be done.

    `OSError` if the peer is gone.
    """
    context.sslsocket_class = TlsSocket
    found = context.wrap_socket(
        sock, server_side=server_side, server_hostname=server_hostname, do_handshake_on_connect=False
    )
    assert isinstance(found, TlsSocket)
    return found
