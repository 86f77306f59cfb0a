"""Logins by SASL mechanism: the SASL mechanisms that RabbitMQ has."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.errors import AccessRefused, CommandInvalid, ProtocolError, Scope
from amqproxy.amqp091.wire import Table

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"


USUAL = (PLAIN, AMQPLAIN)
"""What RabbitMQ offers unless its `auth_mechanisms` are set."""


def offered(mechanisms: Iterable[str], certificate_name: str | None) -> bytes:
    """Those mechanisms that a client may choose from: EXTERNAL only where it has shown a certificate."""
    return " ".join([each for each in mechanisms if each != EXTERNAL or certificate_name]).encode()


def check(mechanism: str, mechanisms: Iterable[str], certificate_name: str | None) -> None:
    """503, as in RabbitMQ, for a mechanism that cannot be used here. With TLS, EXTERNAL can, and fails by itself."""
    if mechanism not in mechanisms or (mechanism == EXTERNAL and certificate_name is None):
        kind = "invalid" if mechanism in (PLAIN, AMQPLAIN, EXTERNAL) else "unknown"
        raise CommandInvalid(f"{kind} authentication mechanism '{mechanism}'")


def credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """The name and password of a response to PLAIN or AMQPLAIN; a `ProtocolError` when it holds none."""
    if mechanism == PLAIN:
        parts = response.decode("utf-8", "surrogateescape").split("\0")
        if len(parts) == 3 and not parts[0]:
            return parts[1], parts[2]
    elif mechanism == AMQPLAIN:
        try:
            table = Table.from_octets(response)
        except ProtocolError:
            table = Table()
        name, password = table.get("LOGIN"), table.get("PASSWORD")
        if isinstance(name, str) and isinstance(password, str):
            return name, password
    raise AccessRefused(f"no credentials in the response to {mechanism}", scope=Scope.CONNECTION)
