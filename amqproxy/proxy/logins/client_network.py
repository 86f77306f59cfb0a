"""The network of a client, by which its share of checks and its failures are counted."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

PREFIX = 64
"""Length of the prefix of an IPv6 address that counts: one host usually has all addresses with it."""


def client_network(address: str) -> str:
    """Return an IPv4 address itself, and of an IPv6 address its network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((int(found), PREFIX), strict=False))
