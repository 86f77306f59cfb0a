"""What a client says of itself while it opens its connection. Section 1.4."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.seen import Client


def introduced(client: Client, method: Method) -> Client:
    """What is known of a client once it has said `method`: its user and properties, or its virtual host."""
    match method:
        case ConnectionStartOk():
            properties = plain(method.client_properties)
            return msgspec.structs.replace(client, user=user_of(method), properties=properties)
        case ConnectionOpen():
            return msgspec.structs.replace(client, vhost=method.virtual_host)
        case _:
            return client


def user_of(start: ConnectionStartOk) -> str:
    """The name that a client logs in with by PLAIN or AMQPLAIN; "" where it says none that we can read."""
    if start.mechanism == "PLAIN":
        parts = start.response.split(b"\0")
        return parts[1].decode("utf-8", "surrogateescape") if len(parts) == 3 else ""
    if start.mechanism == "AMQPLAIN":
        try:
            name = Table.from_octets(start.response).get("LOGIN")
        except ProtocolError:
            return ""
        return name if isinstance(name, str) else ""
    return ""


def plain(value: Any) -> Any:
    """Tables as dictionaries, arrays as lists, long strings as text, as rules read them."""
    if isinstance(value, Table):
        return {name: plain(each) for name, each in value.values_by_name.items()}
    if isinstance(value, Array):
        return [plain(item.value) for item in value.items]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
