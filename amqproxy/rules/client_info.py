"""Reads what is known of a client from its handshake. Section 1.4."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.context import Client


def updated_client(client: Client, method: Method) -> Client:
    """What is known of a client after it has sent `method`: its user and properties, or its virtual host."""
    match method:
        case ConnectionStartOk():
            properties = readable_property(method.client_properties)
            user = user_of(method, client.tls_subject)
            return msgspec.structs.replace(client, user=user, properties=properties)
        case ConnectionOpen():
            return msgspec.structs.replace(client, vhost=method.virtual_host)
        case _:
            return client


def learned_client(client: Client, sender: Peer, frame: Frame) -> Client:
    """What is known of a client after `frame`, which either peer has sent."""
    if sender is not CLIENT or frame.channel or frame.kind != METHOD:
        return client
    try:
        return updated_client(client, frame.method)
    except ProtocolError:  # what is malformed is reported elsewhere
        return client


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


def readable_property(value: Any) -> Any:
    """Tables as dictionaries, arrays as lists, long strings as text, as rules read them."""
    if isinstance(value, Table):
        return {name: readable_property(each) for name, each in value.values_by_name.items()}
    if isinstance(value, Array):
        return [readable_property(item.value) for item in value.items]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
