"""Listeners: all of them are opened, or none stays; and what a reload changes of them."""

import socket
from pathlib import Path

import pytest

from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.listeners import address_of, changes_of, contexts_of, open_listeners
from amqproxy.configuration.config import ConfigError, ListenerConfig
from amqproxy.configuration.tls_config import ServerTLS
from amqproxy.process.systemd import Systemd
from tests.sockets.certificate_files import Files

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


async def test_changes_are_those_of_present_addresses(tmp_path: Path) -> None:
    files = Files(tmp_path)
    secure = ListenerConfig(address="127.0.0.1:0", tls=ServerTLS(certificate=files.server, key=files.server_key))
    limited = ListenerConfig(address="localhost:0", connections=1)
    elsewhere = ListenerConfig(address="127.0.0.1:1")
    async with open_listeners((ANYWHERE, secure, ListenerConfig(address="localhost:0")), Systemd()) as listeners:
        plain, with_tls, *others = listeners
        assert changes_of(listeners, (ANYWHERE, secure, elsewhere)) == ([], [elsewhere], others)
        assert changes_of(listeners, (elsewhere, limited, ANYWHERE, secure)).changed == [(others, limited, None)]
        (change,) = changes_of(listeners, (secure,)).changed
        assert change.sockets == [plain]
        assert change.tls is not None
        slower = ListenerConfig(address="127.0.0.1:0", tls=secure.tls, handshakes_per_second=1)
        assert changes_of(listeners, (ANYWHERE, slower)).changed == [([with_tls], slower, with_tls.tls)]
        wrong = ListenerConfig(address="127.0.0.1:0", tls=ServerTLS(certificate=files.server, key=files.client_key))
        with pytest.raises(ConfigError, match=r"server\.pem"):
            changes_of(listeners, (wrong,))
