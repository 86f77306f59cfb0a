"""User name and password in the client's connection.start-ok, read and written (section 1.4.2.2)."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Table


def user_of(start: ConnectionStartOk, tls_subject: str = "") -> str:
    """Return the user of PLAIN or AMQPLAIN, as RabbitMQ reads it; "" if there is none.

    With EXTERNAL, the user is the one in the certificate, not the one in the response, which any client could claim.
    """
    if start.mechanism in ("PLAIN", "AMQPLAIN"):
        name, _ = credentials_of(start.mechanism, start.response)
        return name or ""
    return tls_subject if start.mechanism == "EXTERNAL" else ""


def credentials_of(mechanism: str, response: bytes) -> tuple[str | None, str | None]:
    """Return user name and password in the response to PLAIN or AMQPLAIN, as RabbitMQ reads them; `None` for each that
    it lacks.
    """
    if mechanism == "PLAIN":
        parts = response.decode("utf-8", "surrogateescape").split("\0")
        if len(parts) != 3:
            return None, None
        return parts[1], None if parts[0] else parts[2]  # an authorization identity is refused, as by RabbitMQ
    if mechanism == "AMQPLAIN":
        try:
            table = Table.from_octets(response)
        except ProtocolError:
            return None, None
        return text_of_login(table.get("LOGIN")), text_of_login(table.get("PASSWORD"))
    return None, None


def response_of(mechanisms: bytes, user: str, password: str) -> tuple[str, bytes]:
    """Return the mechanism for a login by user and password, of those that a server offers, and the response to it."""
    if b"PLAIN" in mechanisms.split():
        return "PLAIN", f"\0{user}\0{password}".encode("utf-8", "surrogateescape")
    return "AMQPLAIN", Table({"LOGIN": user, "PASSWORD": password}).octets


def text_of_login(value: Any) -> str | None:
    """Return an entry of AMQPLAIN's table as text; like RabbitMQ, accept bytes too. `None` for other types."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None
