"""The handshake on its own: it answers, or refuses, and changes nothing else."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.protocol_header import HEADER, NAME
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.broker import Broker
from amqproxy.broker.connection.handshake import VERSIONS, Handshake


def handshake(broker: Broker | None = None, *, certificate_name: str | None = None) -> Handshake:
    return Handshake(broker or Broker(), is_loopback=True, certificate_name=certificate_name)


def test_a_header_may_come_in_pieces_and_with_what_follows_it() -> None:
    opening = handshake()
    assert not opening.has_begun
    assert opening.protocol(HEADER[:3]) is None
    assert opening.has_begun
    assert opening.protocol(HEADER[3:] + b"rest") == NAME
    assert opening.behind_header == b"rest"


@pytest.mark.parametrize(("protocol", "version"), VERSIONS.items())
def test_start_has_the_version_of_the_protocol(protocol: str, version: tuple[int, int]) -> None:
    start = handshake().start(protocol)
    assert (start.version_major, start.version_minor) == version


def test_a_refused_login_leaves_the_name_for_the_log() -> None:
    opening = handshake()
    with pytest.raises(LoginRefused):
        opening.log_in("PLAIN", b"\0ann\0secret")
    assert opening.user_name == "ann"
    assert opening.log_in("PLAIN", b"\0guest\0guest").name == "guest"


def test_external_logs_in_the_user_of_the_certificate() -> None:
    broker = Broker(mechanisms=["EXTERNAL"])
    broker.add_user(User("CN=ann", ""))
    assert handshake(broker, certificate_name="CN=ann").log_in("EXTERNAL", b"").name == "CN=ann"
    with pytest.raises(LoginRefused):
        handshake(broker, certificate_name="CN=bob").log_in("EXTERNAL", b"")


def test_a_virtual_host_needs_a_permission() -> None:
    broker = Broker()
    guest = broker.users["guest"]
    assert handshake(broker).enter("/", guest) is broker.vhosts["/"]
    broker.add_vhost("v")
    for name in ("v", "nil"):
        with pytest.raises(NotAllowed):
            handshake(broker).enter(name, guest)
