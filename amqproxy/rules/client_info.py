"""Facts about a client, read from its handshake (section 1.4)."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.context import Client


def updated_client(client: Client, method: Method) -> Client:
    """Return the client facts after it has sent `method`: its user and properties, or its virtual host."""
    match method:
        case ConnectionStartOk():
            properties = readable_property(method.client_properties)
            user = client.identity or user_of(method, client.tls_subject)
            return msgspec.structs.replace(client, user=user, properties=properties)
        case ConnectionOpen():
            return msgspec.structs.replace(client, vhost=method.virtual_host)
        case _:
            return client


def learned_client(client: Client, sender: Peer, frame: Frame) -> Client:
    """Return the client facts after `frame`, which either peer has sent."""
    if sender is not CLIENT or frame.channel or frame.kind != METHOD:
        return client
    try:
        return updated_client(client, frame.method)
    except ProtocolError:  # malformed frames are reported elsewhere
        return client


def readable_property(value: Any) -> Any:
    """Convert a property for rules: tables to dictionaries, arrays to lists, long strings to text."""
    if isinstance(value, Table):
        return {name: readable_property(each) for name, each in value.values_by_name.items()}
    if isinstance(value, Array):
        return [readable_property(item.value) for item in value.items]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
