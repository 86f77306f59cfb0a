"""Facts about a 0-10 client from its handshake."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.controls import ConnectionOpen as Amqp010Open
from amqproxy.amqp010.controls import ConnectionSecureOk
from amqproxy.amqp010.controls import ConnectionStartOk as Amqp010StartOk
from amqproxy.amqp010.controls import ConnectionTuneOk as Amqp010TuneOk
from amqproxy.amqp010.wire import Map
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import Client


@pytest.mark.parametrize(("opened", "vhost"), [("shop", "shop"), ("", "/"), (None, "/")])
def test_the_virtual_host_of_0_10_is_the_one_that_rules_of_a_proxy_see(opened: str | None, vhost: str) -> None:
    assert updated_amqp010_client(Client(), Amqp010Open(opened)).vhost == vhost


def test_user_properties_and_virtual_host_of_0_10() -> None:
    properties = Map({"product": "p", "qpid.client_pid": 5})
    client = updated_amqp010_client(
        Client(), Amqp010StartOk(client_properties=properties, mechanism="PLAIN", response=b"\0me\0secret")
    )
    client = updated_amqp010_client(client, Amqp010TuneOk())
    client = updated_amqp010_client(client, Amqp010Open(virtual_host="v"))
    assert (client.user, client.vhost, client.properties) == ("me", "v", {"product": "p", "qpid.client_pid": 5})
    assert updated_amqp010_client(client, Amqp010Open()).vhost == "/"
    assert updated_amqp010_client(client, Amqp010Open(virtual_host="")).vhost == "/"


def test_a_user_that_is_named_in_answer_to_a_challenge() -> None:
    start = Amqp010StartOk(mechanism="PLAIN")
    client = updated_amqp010_client(Client(), start)
    assert client.user == ""
    client = updated_amqp010_client(client, ConnectionSecureOk(b"\0me\0secret"))
    assert client.user == "me"
    assert updated_amqp010_client(client, ConnectionSecureOk(b"more")).user == "me"
