"""Types of single values in the configuration, such as addresses, sizes and times, and `Strict`, its base class."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated

import msgspec

from amqproxy.rules.units import duration, size

Seconds = Annotated[float, duration(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Size = Annotated[int, size(ge=1, le=2**63 - 1)]
FrameSize = Annotated[int, size(ge=4096, le=2**32 - 1)]

PORT = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|0*[0-9]{1,4})"
"""Port number as a regular expression in JSON Schema; the errors of `config_file` are plainer."""

Address = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}$",
        extra_json_schema={"allOf": [{"pattern": rf":{PORT}$"}]},
    ),
]
"""HOST:PORT or [IPV6]:PORT. Port 0 lets the system choose; an empty host is every interface."""

ListenAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^((\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}|fd@[^\s:]+)$",
        extra_json_schema={"anyOf": [{"pattern": rf":{PORT}$"}, {"pattern": "^fd@"}]},
    ),
]
"""An `Address`, or `fd@NAME`: a socket that systemd passes."""

RemoteAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*):\d{1,5}$",
        extra_json_schema={"allOf": [{"pattern": rf".:(?!0+$){PORT}$"}]},
    ),
]
"""HOST:PORT or [IPV6]:PORT, both of them named."""


def split_address(address: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT or [IPV6]:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether the address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_port(address: str) -> None:
    """Raise `ValueError` for a port above 65535."""
    if split_address(address)[1] > 65535:
        raise ValueError(f"address {address} has a port above 65535")


def check_broker_address(address: str) -> None:
    """Raise `ValueError` unless the address has a host and a port."""
    check_port(address)
    host, port = split_address(address)
    if not host or not port:
        raise ValueError(f"address {address} does not name a broker: it needs a host and a port")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file; unknown keys are refused."""
