"""The header of the PROXY protocol that a balancer sends before its client's bytes, in version 1 or 2.

See HAProxy's doc/proxy-protocol.txt, sections 2.1 and 2.2.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

import trio

from amqproxy.sockets.certificate import distinguished_name
from amqproxy.sockets.proxy_protocol import SIGNATURE, Address

_START_V1 = b"PROXY "
_MOST_V1 = 107
"""Maximum bytes of a header of version 1, with its line end (section 2.1)."""

_HEAD = struct.Struct(">12sBBH")
_TLV = struct.Struct(">BH")
_SSL = struct.Struct(">BI")
_ADDRESSES = {1: (IPv4Address, struct.Struct(">4s4sHH")), 2: (IPv6Address, struct.Struct(">16s16sHH"))}
"""By address family: the class of an address, and the layout of source, destination and both ports."""

_AUTHORITY, _SSL_FACTS, _SSL_NAME = 0x02, 0x20, 0x22
_HAS_CERTIFICATE = 0x02 | 0x04
"""PP2_CLIENT_CERT_CONN and PP2_CLIENT_CERT_SESS: the client has shown a certificate."""


class BadProxyHeader(ValueError):
    """The bytes are not a valid header; the text says why. `is_probe` if the peer has closed without sending any."""

    def __init__(self, text: str, *, is_probe: bool = False) -> None:
        super().__init__(text)
        self.is_probe = is_probe


class ProxyHeader(NamedTuple):
    """A client's connection to the balancer: its ends, and facts of its TLS handshake.

    `ends` are source and destination, `None` for a connection of the balancer itself, such as a health check, or one
    that is not TCP. `authority` is the requested server name, and `tls_subject` the common name of the verified client
    certificate, as `CN=…`; both are "" if unknown.
    """

    ends: tuple[Address, Address] | None = None
    authority: str = ""
    tls_subject: str = ""


def may_begin(first: int) -> bool:
    """Whether a header can begin with this byte, with which neither AMQP nor TLS begins."""
    return first in (_START_V1[0], SIGNATURE[0])


def header_size(data: bytes) -> int | None:
    """Return the size of the header at the start of `data`; `None` if all of `data` belongs to it, and more follows.

    Raise `BadProxyHeader` if there is none.
    """
    start = SIGNATURE if data[:1] == SIGNATURE[:1] else _START_V1
    if data[: len(start)] != start[: len(data)]:
        raise BadProxyHeader("the connection does not begin with a PROXY header")
    if start is SIGNATURE:
        return None if len(data) < _HEAD.size else _HEAD.size + _HEAD.unpack_from(data)[3]
    end = data.find(b"\r\n", 0, _MOST_V1)
    if end < 0 and len(data) >= _MOST_V1:
        raise BadProxyHeader(f"a PROXY header of version 1 is longer than {_MOST_V1} bytes")
    return None if end < 0 else end + 2


def parse(data: bytes) -> ProxyHeader:
    """Return a whole header; raise `BadProxyHeader` if it is invalid."""
    try:
        return _parse_v1(data) if data.startswith(_START_V1) else _parse_v2(data)
    except (struct.error, AddressValueError, UnicodeDecodeError) as error:
        raise BadProxyHeader(f"invalid PROXY header: {error}") from None


def _parse_v1(data: bytes) -> ProxyHeader:
    words = data.decode("ascii").removesuffix("\r\n").split(" ")
    if words[1] == "UNKNOWN":
        return ProxyHeader()
    kinds = {"TCP4": IPv4Address, "TCP6": IPv6Address}
    if len(words) != 6 or words[1] not in kinds:
        raise BadProxyHeader("a PROXY header of version 1 needs TCP4 or TCP6, two addresses and two ports")
    source, destination = (str(kinds[words[1]](word)) for word in words[2:4])
    ports = [int(word) if word.isascii() and word.isdigit() else -1 for word in words[4:]]
    if not all(0 <= port <= 65535 for port in ports):
        raise BadProxyHeader("a port in a PROXY header of version 1 is not a number up to 65535")
    return ProxyHeader(((source, ports[0]), (destination, ports[1])))


def _parse_v2(data: bytes) -> ProxyHeader:
    _, kind, family, _ = _HEAD.unpack_from(data)
    if kind >> 4 != 2 or kind & 15 > 1:
        raise BadProxyHeader(f"a PROXY header has version and command 0x{kind:02x}, not 0x20 or 0x21")
    if kind & 15 == 0:  # LOCAL: the receiver must ignore everything else
        return ProxyHeader()
    rest = memoryview(data)[_HEAD.size :]
    if family >> 4 not in _ADDRESSES or family & 15 != 1:
        return ProxyHeader()
    make, layout = _ADDRESSES[family >> 4]
    source, destination, source_port, destination_port = layout.unpack_from(rest)
    ends = (str(make(source)), source_port), (str(make(destination)), destination_port)
    authority = tls_subject = ""
    for number, value in _fields(rest[layout.size :]):
        if number == _AUTHORITY:
            authority = bytes(value).decode()
        elif number == _SSL_FACTS:
            flags, refusal = _SSL.unpack_from(value)
            if flags & _HAS_CERTIFICATE and refusal == 0:
                names = [bytes(name).decode() for place, name in _fields(value[_SSL.size :]) if place == _SSL_NAME]
                if names:
                    tls_subject = distinguished_name({"subject": ((("commonName", names[0]),),)}) or ""
    return ProxyHeader(ends, authority, tls_subject)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield type and value of each TLV (section 2.2)."""
    while data:
        number, size = _TLV.unpack_from(data)
        if len(data) < _TLV.size + size:
            raise BadProxyHeader("a field of a PROXY header is longer than the header")
        yield number, data[_TLV.size : _TLV.size + size]
        data = data[_TLV.size + size :]


async def receive_header(sock: trio.socket.SocketType) -> ProxyHeader | None:
    """Receive a header and not a byte more; return `None`, without receiving any, if the peer begins otherwise.

    Raise `BadProxyHeader` if it is invalid, or if the peer has closed before its end; `OSError` if the peer is gone.
    """
    data = b""
    while True:
        await trio.lowlevel.wait_readable(sock)
        peeked = await sock.recv(_HEAD.size + 0xFFFF, socket.MSG_PEEK)
        if not peeked:
            raise BadProxyHeader("closed before the end of a PROXY header", is_probe=not data)
        if not data and not may_begin(peeked[0]):
            return None
        size = header_size(data + peeked)
        missing = len(peeked) if size is None else min(size - len(data), len(peeked))
        data += await sock.recv(missing)
        if len(data) == size:
            return parse(data)
