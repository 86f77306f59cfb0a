"""Client networks, as the keys of limits per client."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

UNKNOWN = "?"


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """Return the address, or the /64 network of an IPv6 address, since one client may have all of its addresses."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host or UNKNOWN
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, 64), strict=False))
    return str(address)
