"""What is known of a client of 0-10."""

from amqproxy.amqp010.controls import ConnectionOpen, ConnectionSecureOk, ConnectionStartOk, ConnectionTuneOk
from amqproxy.amqp010.wire import Map
from amqproxy.proxy.amqp010_client_info import updated_client
from amqproxy.rules.context import Client


def test_user_properties_and_virtual_host() -> None:
    properties = Map({"product": "p", "qpid.client_pid": 5})
    client = updated_client(
        Client(), ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=b"\0me\0secret")
    )
    client = updated_client(client, ConnectionTuneOk())
    client = updated_client(client, ConnectionOpen(virtual_host="v"))
    assert (client.user, client.vhost, client.properties) == ("me", "v", {"product": "p", "qpid.client_pid": 5})
    assert updated_client(client, ConnectionOpen()).vhost == "/"
    assert updated_client(client, ConnectionOpen(virtual_host="")).vhost == "/"


def test_a_user_that_is_named_in_answer_to_a_challenge() -> None:
    start = ConnectionStartOk(mechanism="PLAIN")
    client = updated_client(Client(), start)
    assert client.user == ""
    client = updated_client(client, ConnectionSecureOk(b"\0me\0secret"), start)
    assert client.user == "me"
    assert updated_client(client, ConnectionSecureOk(b"more"), start).user == "me"
