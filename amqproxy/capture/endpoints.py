"""The two ends of a TCP connection, formatted identically on every version of Python."""

from __future__ import annotations

from ipaddress import IPv6Address

import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """An address of 4 or 16 bytes, and a port; its text puts an IPv6 address in brackets."""

    address: bytes
    port: int

    def __str__(self) -> str:
        if len(self.address) == 4:
            return ".".join(map(str, self.address)) + f":{self.port}"
        parsed = IPv6Address(self.address)
        inner = parsed.ipv4_mapped
        return f"[::ffff:{inner}]:{self.port}" if inner else f"[{parsed}]:{self.port}"


def source_of(flow: bytes) -> Endpoint:
    """Return the source of a flow's segments."""
    return Endpoint(flow[: len(flow) // 2 - 2], int.from_bytes(flow[-4:-2], "big"))


def reverse(flow: bytes) -> bytes:
    """Return the flow of the other direction."""
    size = len(flow) // 2 - 2
    return flow[size : 2 * size] + flow[:size] + flow[-2:] + flow[-4:-2]
