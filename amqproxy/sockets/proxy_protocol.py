"""The PROXY protocol, version 2, by which a proxy sends the server the client's real address.

See HAProxy's doc/proxy-protocol.txt, section 2.2; for TCP over IPv4 and IPv6, without extensions.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_VERSION_AND_COMMAND = 0x21  # version 2, PROXY
_TCP4, _TCP6 = 0x11, 0x21
_HEAD = struct.Struct(">12sBBH")
_PORTS = struct.Struct(">HH")

Address = tuple[str, int]
"""An IP address and a port."""


def header(source: Address, destination: Address) -> bytes:
    """Return the header for a connection that really goes from `source` to `destination`."""
    one, other = plain_address(source[0]), plain_address(destination[0])
    if isinstance(one, IPv4Address) and isinstance(other, IPv4Address):
        family, packed = _TCP4, one.packed + other.packed
    else:
        family, packed = _TCP6, _v6(one).packed + _v6(other).packed
    addresses = packed + _PORTS.pack(source[1], destination[1])
    return _HEAD.pack(SIGNATURE, _VERSION_AND_COMMAND, family, len(addresses)) + addresses


def plain_address(host: str) -> IPv4Address | IPv6Address:
    """Return the address, with an IPv4-mapped one as IPv4, and without a zone."""
    address = ip_address(host.partition("%")[0])
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _v6(address: IPv4Address | IPv6Address) -> IPv6Address:
    return IPv6Address(f"::ffff:{address}") if isinstance(address, IPv4Address) else address
