"""Facts about a 0-10 client, read from its handshake (sections 9.1.2 to 9.1.7)."""

from __future__ import annotations

from msgspec.structs import replace

from amqproxy.amqp010 import controls
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.wire import Map
from amqproxy.conversion.amqp010.method_views import DEFAULT_VHOST
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010.record import plain


def updated_amqp010_client(client: Client, method: Method) -> Client:
    """Return the client facts after a control of the handshake: its user and properties, or its virtual host."""
    match method:
        case controls.ConnectionStartOk():
            mechanism = method.mechanism or ""
            user = client.identity or user_of(mechanism, method.response, client.tls_subject)
            properties = plain(method.client_properties or Map())
            return replace(client, user=user, mechanism=mechanism, properties=properties)
        case controls.ConnectionSecureOk():
            user = user_of(client.mechanism, method.response, client.tls_subject)
            return replace(client, user=client.identity or user or client.user)
        case controls.ConnectionOpen():
            return replace(client, vhost=method.virtual_host or DEFAULT_VHOST)
        case _:
            return client
