"""SASL EXTERNAL: the user that a client's certificate names. In RabbitMQ this is a plugin."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import trustme

from amqproxy.amqp091.methods import ConnectionOpen, ConnectionTune, ConnectionTuneOk
from amqproxy.broker import Broker, serve_in_thread
from amqproxy.broker.definitions import definitions_json
from tests.behaviours.client import Client, login
from tests.behaviours.rabbitmq_target import RabbitMQTarget
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

USER = 'CN=orders \\"n\\" \\C3\\A4,OU=behaviours,O=acme\\, inc'
DEFINITIONS = {
    "users": [{"name": USER, "password_hash": "", "tags": ""}],
    "permissions": [{"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
}


class Secured:
    """A broker's listener with TLS, and the authority of its clients."""

    def __init__(self, port: int, authority: trustme.CA) -> None:
        self.port = port
        self.authority = authority
        self.stack = ExitStack()

    def client(self, name: str = "") -> Client:
        """One that shows a certificate, if there is a name for it; it has sent nothing yet."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if name:
            issued = self.authority.issue_cert(
                "orders@example.com",
                common_name=name,
                organization_name="acme, inc",
                organization_unit_name="behaviours",
            )
            issued.configure_cert(context)
        client = Client(self.port)
        client.stream = context.wrap_socket(client.stream, server_hostname="127.0.0.1")
        self.stack.callback(client.abandon)
        return client


@pytest.fixture(scope="module")
def secured(broker: Target) -> Iterator[Secured]:
    with ExitStack() as stack:
        if isinstance(broker, RabbitMQTarget):
            stack.enter_context(broker.plugins("rabbitmq_auth_mechanism_ssl"))
            broker.define(**DEFINITIONS)
            stack.callback(broker.node.ctl, "delete_user", USER)
            found = Secured(broker.node.tls_port, broker.node.authority)
        else:
            authority = trustme.CA()
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.verify_mode = ssl.CERT_OPTIONAL
            authority.configure_trust(context)
            authority.issue_cert("127.0.0.1").configure_cert(context)
            own = Broker(mechanisms=("PLAIN", "AMQPLAIN", "EXTERNAL"))
            definitions_json.load(own, DEFINITIONS, 0.0)
            found = Secured(stack.enter_context(serve_in_thread(own, context=context)).port, authority)
        with found.stack:
            yield found


def test_the_user_that_the_certificate_names_may_log_in(secured: Secured) -> None:
    client = secured.client('orders "n" ä')
    assert b"EXTERNAL" in client.greet().mechanisms.split()
    client.start_ok(b"", "EXTERNAL")
    client.zero.expect(ConnectionTune)
    client.zero.send(ConnectionTuneOk(2047, 131_072, 0))
    client.zero.call(ConnectionOpen("/"))


def test_the_user_that_it_names_must_exist(secured: Secured) -> None:
    client = secured.client("invoices")
    client.greet()
    client.start_ok(b"", "EXTERNAL")
    client.zero.expect_close(
        "connection 403 0.0 ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
        "For details see the broker logfile."
    )


def test_who_shows_a_certificate_may_use_a_password(secured: Secured) -> None:
    client = secured.client("invoices")
    client.greet()
    client.start_ok(login("guest", "guest"))
    client.zero.expect(ConnectionTune)


def test_external_without_a_certificate(secured: Secured) -> None:
    client = secured.client()
    client.greet()
    client.start_ok(b"", "EXTERNAL")
    client.zero.expect_close(
        "connection 403 0.0 ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
        "For details see the broker logfile."
    )


def test_external_without_tls(secured: Secured, broker: Target) -> None:
    client = Client(broker.port)
    secured.stack.callback(client.abandon)
    assert b"EXTERNAL" not in client.greet().mechanisms.split()
    client.start_ok(b"", "EXTERNAL")
    assert client.is_cut()
