"""Facts about a client, read from its handshake (0-9-1: section 1.4; 0-10: sections 9.1.2 to 9.1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from amqproxy.amqp010 import controls
from amqproxy.amqp010.login import user_of as amqp010_user_of
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Array, Table
from amqproxy.conversion.method_views import DEFAULT_VHOST
from amqproxy.rules.context import Client


def updated_client(client: Client, method: Method) -> Client:
    """Return the client facts after it has sent `method`: its user and properties, or its virtual host."""
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
    """Return the client facts after `frame`, which either peer has sent."""
    if sender is not CLIENT or frame.channel or frame.kind != METHOD:
        return client
    try:
        return updated_client(client, frame.method)
    except ProtocolError:  # malformed frames are reported elsewhere
        return client


def updated_amqp010_client(
    client: Client,
    method: Amqp010Method,
    plain: Callable[[Any], Any],
) -> Client:
    """Return the client facts after a 0-10 control; `plain` converts properties to values that rules can read."""
    match method:
        case controls.ConnectionStartOk():
            properties = plain(method.client_properties or Map())
            mechanism = method.mechanism or ""
            user = amqp010_user_of(mechanism, method.response, client.tls_subject)
            return msgspec.structs.replace(client, user=user, mechanism=mechanism, properties=properties)
        case controls.ConnectionSecureOk():
            user = amqp010_user_of(client.mechanism, method.response, client.tls_subject)
            return msgspec.structs.replace(client, user=user or client.user)
        case controls.ConnectionOpen():
            return msgspec.structs.replace(client, vhost=method.virtual_host or DEFAULT_VHOST)
        case _:
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
