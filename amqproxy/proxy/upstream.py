"""Connections to the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from amqproxy.configuration.config import UpstreamConfig, split_address
from amqproxy.sockets.proxy_protocol import Address, header
from amqproxy.sockets.tls import client_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken, plain_socket


class Unreachable(Exception):
    """The broker could not be reached: `kind` is "refused", "timeout", "tls" or "unreachable"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Dialer:
    """Opens connections to one broker, as configured. Raises `ConfigError` if its files are invalid."""

    def __init__(self, upstream: UpstreamConfig, timeout: float) -> None:
        self.upstream = upstream
        self.address = upstream.address
        self._host, self._port = split_address(upstream.address)
        self._timeout = timeout
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
        tls = self.upstream.tls
        return tuple(each for each in (tls.ca, tls.certificate, tls.key) if each) if tls else ()

    def on_behalf_of(self, client: Address, listener: Address) -> Callable[[], Awaitable[Transport]]:
        """Return a dial function for a client of `listener`, which sends the broker its address if configured."""
        return partial(self._dial, (client, listener))

    async def __call__(self) -> Transport:
        """Open a connection of the proxy itself; raises `Unreachable` if none can be opened within the timeout."""
        return await self._dial(None)

    async def _dial(self, ends: tuple[Address, Address] | None) -> Transport:
        try:
            with trio.fail_after(self._timeout):
                return await self._open(ends)
        except trio.TooSlowError:
            raise Unreachable("timeout", f"{self.address} did not accept within {self._timeout:g} s") from None
        except trio.BrokenResourceError as error:
            raise Unreachable("unreachable", f"{self.address} hung up: {error.__cause__ or error}") from None
        except OSError as error:
            kind, why = _explained(error)
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
        except TransportBroken as error:
            raise Unreachable("tls", f"{self.address} failed the TLS handshake: {error}") from None
        return transport


def _explained(error: OSError) -> tuple[str, str]:
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
