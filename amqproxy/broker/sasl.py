"""Who a client says it is: the SASL mechanisms that RabbitMQ has."""

from __future__ import annotations

from amqproxy.amqp091.errors import AccessRefused, ProtocolError, Scope
from amqproxy.amqp091.wire import Table

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"


def offered(certificate_name: str | None) -> bytes:
    """The mechanisms a client may choose from; EXTERNAL where it has shown a certificate."""
    return b"PLAIN AMQPLAIN EXTERNAL" if certificate_name else b"PLAIN AMQPLAIN"


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
