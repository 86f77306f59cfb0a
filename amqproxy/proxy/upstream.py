"""Connections to the broker."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable

import trio

from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.configuration.values import split_address
from amqproxy.sockets.proxy_protocol import Address, header
from amqproxy.sockets.tls import client_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken, plain_socket

_IPV6 = 6

MAIN = "main"
"""The name of `[upstream]` in metrics and lists."""


class Unreachable(Exception):
    """The broker could not be reached: `kind` is one of `FAILURES`, `upstream` the name of its group."""

    def __init__(self, kind: str, text: str, upstream: str = MAIN) -> None:
        super().__init__(text)
        self.kind = kind
        self.upstream = upstream


class Dialer:
    """Opens connections to one broker, as configured. Raises `ConfigError` if its files are invalid.

    `context_of` returns the TLS context of settings.
    """

    def __init__(
        self,
        upstream: UpstreamConfig,
        timeout: float,
        context_of: Callable[[ClientTLS], ssl.SSLContext] = client_context,
    ) -> None:
        self.upstream = upstream
        self.address = upstream.address
        self._host, self._port = split_address(upstream.address)
        self._family = _family(self._host)
        self.timeout = timeout
        self.handshakes = 0
        """Number of TLS handshakes that were completed."""
        self._context_of = context_of
        self._tls = context_of(upstream.tls) if upstream.tls else None
        self._server_name = (upstream.tls and upstream.tls.server_name) or self._host

    def renew(self) -> bool:
        """Reload the TLS files for later connections; return false if there are none.

        Raises `ConfigError`, without any change, if they are invalid.
        """
        if self.upstream.tls is None:
            return False
        self._tls = self._context_of(self.upstream.tls)
        return True

    @property
    def tls_files(self) -> tuple[str, ...]:
        """The files that `renew` reads."""
        return self.upstream.tls.files if self.upstream.tls else ()

    async def __call__(self, ends: tuple[Address, Address] | None = None) -> Transport:
        """Open a connection; raises `Unreachable` if none can be opened within the timeout.

        `ends` are the addresses of a client and of its listener, which the broker is sent if that is configured; `None`
        for a connection of the proxy itself.
        """
        try:
            with trio.fail_after(self.timeout):
                return await self._open(ends)
        except trio.TooSlowError:
            raise Unreachable("timeout", f"{self.address} did not accept within {self.timeout:g} s") from None
        except TransportBroken as error:
            raise Unreachable("unreachable", f"{self.address} hung up: {error}") from None
        except OSError as error:
            kind, why = explained(error)
            raise Unreachable(kind, f"{self.address} {why}") from None
        except ValueError as error:  # UnicodeError: an invalid host name
            raise Unreachable("unreachable", f"{self.address} cannot be reached: {error}") from None

    async def _connected(self) -> socket.socket:
        """Return a socket connected to the broker.

        The addresses of a name are tried in parallel (RFC 8305), which takes a nursery and four times the CPU time.
        """
        if self._family is None:
            return plain_socket(await trio.open_tcp_stream(self._host, self._port))
        sock = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await _connect(sock, (self._host, self._port))
        except BaseException:
            sock.close()
            raise
        return sock

    async def _open(self, ends: tuple[Address, Address] | None) -> Transport:
        sock = await self._connected()
        transport = SocketTransport(sock)
        try:
            if self.upstream.proxy_protocol:
                own = sock.getsockname()[:2], sock.getpeername()[:2]
                await transport.send(header(*(ends or own)))
            if self._tls is None:
                return transport
            transport = SocketTransport(secured(sock, self._tls, server_hostname=self._server_name))
        except BaseException:
            transport.reset_now()
            raise
        try:
            await transport.secure()
        except BaseException as error:
            transport.reset_now()
            if isinstance(error, TransportBroken):
                raise Unreachable("tls", f"{self.address} failed the TLS handshake: {error}") from None
            raise
        self.handshakes += 1
        return transport


def _family(host: str) -> socket.AddressFamily | None:
    """Return the family of an IP address; `None` for a host name, whose addresses have to be looked up."""
    try:
        return socket.AF_INET6 if ipaddress.ip_address(host).version == _IPV6 else socket.AF_INET
    except ValueError:
        return None


async def _connect(sock: socket.socket, address: Address) -> None:
    """Connect a non-blocking socket to an IP address and port."""
    code = sock.connect_ex(address)
    if code == errno.EINPROGRESS:
        await trio.lowlevel.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def explained(error: OSError) -> tuple[str, str]:
    """Return the kind and the reason; trio groups the failures of a name's several addresses."""
    cause: BaseException = error
    while isinstance(cause.__cause__, (OSError, BaseExceptionGroup)):
        cause = cause.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, ConnectionRefusedError):
        return "refused", "refused the connection; is the broker up, and is this its address?"
    text = (isinstance(cause, OSError) and cause.strerror) or str(cause)
    return "unreachable", f"cannot be reached: {text}"
