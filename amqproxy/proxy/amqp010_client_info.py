"""What is known of a client from the controls of AMQP 0-10 that it opens its connection with."""

from __future__ import annotations

import msgspec

from amqproxy.amqp010.controls import ConnectionOpen, ConnectionSecureOk, ConnectionStartOk
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.wire import Map
from amqproxy.conversion.method_views import DEFAULT_VHOST
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010_record import plain


def updated_client(client: Client, method: Method, start: ConnectionStartOk | None = None) -> Client:
    """What is known of a client after it has sent `method`: its user and properties, or its virtual host.

    `start` is what it has begun its login with, by the time that it answers a challenge.
    """
    match method:
        case ConnectionStartOk():
            properties = plain(method.client_properties or Map())
            return msgspec.structs.replace(client, user=user_of(method, client.tls_subject), properties=properties)
        case ConnectionSecureOk() if start is not None:  # PLAIN may answer only when it is asked again
            answered = ConnectionStartOk(start.client_properties, start.mechanism, method.response, start.locale)
            return msgspec.structs.replace(client, user=user_of(answered, client.tls_subject) or client.user)
        case ConnectionOpen():
            return msgspec.structs.replace(client, vhost=method.virtual_host or DEFAULT_VHOST)
        case _:
            return client
