"""A login on its own: it answers, or refuses, and changes nothing else."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.login import Login


def login(broker: Broker | None = None, *, certificate_name: str | None = None) -> Login:
    return Login(broker or Broker(), is_loopback=True, certificate_name=certificate_name)


def test_external_is_offered_to_a_client_with_a_certificate() -> None:
    broker = Broker(mechanisms=["PLAIN", "EXTERNAL"])
    assert login(broker).mechanisms == b"PLAIN"
    assert login(broker, certificate_name="CN=ann").mechanisms == b"PLAIN EXTERNAL"


def test_a_refused_login_leaves_the_name_for_the_log() -> None:
    opening = login()
    with pytest.raises(LoginRefused):
        opening.log_in("PLAIN", b"\0ann\0secret")
    assert opening.user_name == "ann"
    assert opening.log_in("PLAIN", b"\0guest\0guest").name == "guest"


def test_external_logs_in_the_user_of_the_certificate() -> None:
    broker = Broker(mechanisms=["EXTERNAL"])
    broker.add_user(User("CN=ann", ""))
    assert login(broker, certificate_name="CN=ann").log_in("EXTERNAL", b"").name == "CN=ann"
    with pytest.raises(LoginRefused):
        login(broker, certificate_name="CN=bob").log_in("EXTERNAL", b"")


def test_a_virtual_host_needs_a_permission() -> None:
    broker = Broker()
    guest = broker.users["guest"]
    assert login(broker).enter("/", guest) is broker.vhosts["/"]
    broker.add_vhost("v")
    for name in ("v", "nil"):
        with pytest.raises(NotAllowed):
            login(broker).enter(name, guest)
