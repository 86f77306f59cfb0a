"""Connections to the broker."""

from __future__ import annotations

import trio

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.configuration.values import split_address
from amqproxy.sockets.proxy_protocol import Address, header
from amqproxy.sockets.tls import client_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken, plain_socket

MAIN = "main"
"""The name of `[upstream]` in metrics and lists."""


class Unreachable(Exception):
    """The broker could not be reached: `kind` is one of `FAILURES`, `upstream` the name of its group."""

    def __init__(self, kind: str, text: str, upstream: str = MAIN) -> None:
        super().__init__(text)
        self.kind = kind
        self.upstream = upstream


class Dialer:
    """Opens connections to one broker, as configured. Raises `ConfigError` if its files are invalid."""

    def __init__(self, upstream: UpstreamConfig, timeout: float) -> None:
        self.upstream = upstream
        self.address = upstream.address
        self._host, self._port = split_address(upstream.address)
        self.timeout = timeout
        self._tls = client_context(upstream.tls) if upstream.tls else None
        self._server_name = (upstream.tls and upstream.tls.server_name) or self._host

    def renew(self) -> bool:
        """Reload the TLS files for later connections; return false if there are none.

        Raises `ConfigError`, without any change, if they are invalid.
        """
        if self.upstream.tls is None:
            return False
        self._tls = client_context(self.upstream.tls)
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
        except trio.BrokenResourceError as error:
            raise Unreachable("unreachable", f"{self.address} hung up: {error.__cause__ or error}") from None
        except OSError as error:
            kind, why = explained(error)
            raise Unreachable(kind, f"{self.address} {why}") from None
        except ValueError as error:  # UnicodeError: an invalid host name
            raise Unreachable("unreachable", f"{self.address} cannot be reached: {error}") from None

    async def _open(self, ends: tuple[Address, Address] | None) -> Transport:
        stream = await trio.open_tcp_stream(self._host, self._port)
        try:
            if self.upstream.proxy_protocol:
                own = stream.socket.getsockname()[:2], stream.socket.getpeername()[:2]
                await stream.send_all(header(*(ends or own)))
            if self._tls is None:
                return SocketTransport(plain_socket(stream))
            transport = SocketTransport(secured(plain_socket(stream), self._tls, server_hostname=self._server_name))
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        try:
            await transport.secure()
        except BaseException as error:
            transport.reset_now()
            if isinstance(error, TransportBroken):
                raise Unreachable("tls", f"{self.address} failed the TLS handshake: {error}") from None
            raise
        return transport


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
