"""The packet addresses of a leg: those of the connection, or made-up ones if it has none."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from amqproxy.capture.endpoints import Endpoint
from amqproxy.recording.entry import CLIENT_LEG

SERVER_PORT = 5672
"""AMQP's port, for an upstream without addresses: the integrated broker, over a socket pair."""

_OWN = IPv4Address("192.0.2.1")
_PEER = IPv4Address("198.51.100.1")
"""Addresses from the documentation networks of RFC 5737, which no real connection uses."""
_FIRST_PORT, _PORTS, _HOSTS = 10_000, 50_000, 250

_END = r"(?:\[([^\[\]]+)\]|([^\[\]:-]+)):(\d{1,5})"
_NAME = re.compile(rf"{_END}-{_END}")


def addresses_of(name: str, number: int, leg: str) -> tuple[Endpoint, Endpoint]:
    """Return the opener and the acceptor of connection `name`.

    They are made up from the session number if the name holds no addresses.
    """
    found = _NAME.fullmatch(name)
    if found is not None:
        try:
            return _endpoint(*found.groups()[:3]), _endpoint(*found.groups()[3:])
        except ValueError:
            pass
    host, port = divmod(number, _PORTS)
    base = _PEER if leg == CLIENT_LEG else _OWN
    opener = Endpoint((base + host % _HOSTS).packed, _FIRST_PORT + port)
    return opener, Endpoint((_OWN if leg == CLIENT_LEG else _PEER).packed, SERVER_PORT)


def _endpoint(v6: str | None, v4: str | None, port: str) -> Endpoint:
    number = int(port)
    if number > 65_535:
        raise AddressValueError(f"port {port}")
    if v6 is not None:
        return Endpoint(IPv6Address(v6.partition("%")[0]).packed, number)
    return Endpoint(IPv4Address(v4 or "").packed, number)
