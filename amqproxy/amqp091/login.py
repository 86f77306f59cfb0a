"""User name in the client's connection.start-ok (section 1.4.2.2)."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Table


def user_of(start: ConnectionStartOk, tls_subject: str = "") -> str:
    """Return the user of PLAIN or AMQPLAIN, as RabbitMQ reads it; "" if there is none.

    With EXTERNAL, the user is the one in the certificate, not the one in the response, which any client could claim.
    """
    if start.mechanism == "PLAIN":
        parts = start.response.split(b"\0")
        return parts[1].decode("utf-8", "surrogateescape") if len(parts) == 3 else ""
    if start.mechanism == "AMQPLAIN":
        try:
            return text_of_login(Table.from_octets(start.response).get("LOGIN")) or ""
        except ProtocolError:
            return ""
    return tls_subject if start.mechanism == "EXTERNAL" else ""


def text_of_login(value: Any) -> str | None:
    """Return an entry of AMQPLAIN's table as text; like RabbitMQ, accept bytes too. `None` for other types."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None
