"""Who logs in, according to the client's connection.start-ok. Section 1.4.2.2."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Table


def user_of(start: ConnectionStartOk, tls_subject: str = "") -> str:
    """The name that a client logs in with by PLAIN or AMQPLAIN, as RabbitMQ reads it; "" if there is none.

    With EXTERNAL, the user is the one that its certificate names, not the one in its response: any client could claim
    that.
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
    """An entry of AMQPLAIN's table as text. RabbitMQ takes bytes for one, too; None where it is neither."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None
