"""The opening of a session: the client's TLS handshake and its protocol header."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec
import trio

from amqproxy.amqp091.protocol_header import HEADER, NAME, OPAQUE, recognise
from amqproxy.proxy.session.session_report import SessionEnd
from amqproxy.pump.tls_records import bound_reads
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport, TransportBroken, shake_hands

HEADER_SIZE = len(HEADER)


class Opening(NamedTuple):
    """A client's first bytes, which begin with a protocol header, and the protocol that it names."""

    data: bytes
    protocol: str

    @property
    def header(self) -> bytes:
        """The protocol header."""
        return self.data[:HEADER_SIZE]

    @property
    def behind_header(self) -> bytes:
        """The bytes that the client has sent behind its protocol header."""
        return self.data[HEADER_SIZE:]

    @property
    def is_opaque(self) -> bool:
        """Whether the protocol is one that is relayed without being decoded."""
        return self.protocol in OPAQUE

    def refusal(self, *, is_decoded: bool, unread_refusal: str) -> SessionEnd | None:
        """Return why the client is not served, or `None` if it is.

        `unread_refusal` is why clients of protocols that are not decoded are refused, "" if they pass.
        """
        if is_decoded or (self.is_opaque and not unread_refusal):
            return None
        why = ""
        if self.is_opaque:
            why = f", which the proxy does not decode: {unread_refusal}"
        elif self.protocol == "PROXY protocol":
            why = ": no listener takes it, so that the balancer in front must not send it"
        return SessionEnd("proxy", 0, f"the client speaks {self.protocol}, not AMQP {NAME}{why}")


async def receive_opening(transport: Transport, tls_timeout: float) -> Opening | SessionEnd:
    """Receive the protocol header, after the TLS handshake if there is one; return the session's end if it ends before.

    Section 4.2.2.
    """
    end = await _finish_tls_handshake(transport, tls_timeout)
    if end is not None:
        return end
    data = b""
    while True:
        reason = ""
        try:
            received = await transport.receive()
        except TransportBroken as error:
            received, reason = b"", f": {error}"
        if not received:
            reason = f"closed before a protocol header{reason}"
            return SessionEnd("client", 0, reason, is_abnormal=bool(data), is_probe=not data)
        data += received
        protocol = recognise(data)
        if protocol is not None:
            return Opening(data, protocol)


async def turn_away(transport: Transport, header: bytes, timeout: float) -> None:
    """Answer a client of an unsupported protocol with the supported header, and wait until it closes.

    Section 4.2.2.
    """
    with trio.move_on_after(timeout), suppress(TransportBroken):
        await transport.send(header)
        await transport.send_eof()
        while await transport.receive():
            pass


def with_tls(client: Client, transport: Transport) -> Client:
    """Return the client with the subject and server name of its TLS handshake, if there was one."""
    tls = transport.tls
    if tls is None:
        return client
    return msgspec.structs.replace(client, tls_subject=tls.subject, sni=tls.requested_name or "")


async def _finish_tls_handshake(transport: Transport, timeout: float) -> SessionEnd | None:
    """Await a client's TLS handshake within its own timeout; return the session's end if it fails."""
    tls = transport.tls
    if tls is None:
        return None
    try:
        with trio.fail_after(timeout):
            if await shake_hands(tls):
                bound_reads(tls)
                return None
        return SessionEnd("client", 0, "closed before the end of the TLS handshake", is_abnormal=False, is_probe=True)
    except trio.TooSlowError:
        is_probe = tls.requested_name is None  # health checks and idle pools of balancers send none
        return SessionEnd("proxy", 0, f"no TLS handshake within {timeout:g} s", is_probe=is_probe)
    except TransportBroken as error:
        return SessionEnd("client", 0, f"TLS handshake failed: {error}")
