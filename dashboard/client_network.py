"""From where a browser comes, as far as bounds are kept by that."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

UNKNOWN = "?"


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """The address, or of IPv6 the network of 64 bits, of which one client may have all addresses."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host or UNKNOWN
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, 64), strict=False))
    return str(address)
