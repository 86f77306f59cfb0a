"""Listeners: all of them are opened, or none stays."""

import socket

import pytest

from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.listeners import address_of, contexts_of, open_listeners
from amqproxy.configuration.config import ListenerConfig
from amqproxy.process.systemd import Systemd

ANYWHERE = ListenerConfig(address="127.0.0.1:0")


async def test_each_has_an_address_of_its_own() -> None:
    async with open_listeners((ANYWHERE, ANYWHERE), Systemd()) as listeners:
        addresses = [address_of(each.listener) for each in listeners]
        assert len(set(addresses)) == 2
        assert contexts_of(listeners) == []
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()


async def test_of_which_one_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(AddressUnavailable, match=rf"^cannot listen on {taken}: Address already in use$"):
            async with open_listeners((ANYWHERE, ListenerConfig(address=taken)), Systemd()):
                pytest.fail("it is open")
