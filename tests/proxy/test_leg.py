"""A leg as the watchdog sees it, of either protocol."""

from types import SimpleNamespace

import pytest

from amqproxy.amqp010.connection import Connection as Connection010
from amqproxy.amqp091.connection import Connection
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.leg import AnyConnection


@pytest.mark.parametrize("kind", [Connection, Connection010])
@pytest.mark.parametrize(("peer", "name"), [(CLIENT, "client"), (SERVER, "upstream")])
def test_who_is_read_from_and_sends_nothing_is_silent(kind: type[AnyConnection], peer: Peer, name: str) -> None:
    connection = kind()
    transport = SimpleNamespace(received=0, is_listening=True)
    leg = Amqp091Leg(peer, transport, connection) if kind is Connection else Amqp010Leg(peer, transport)  # type: ignore[arg-type]
    connection = leg.connection
    assert leg.name == name
    assert leg.missed_heartbeats(0) == ""
    connection.heartbeat = 10
    assert leg.missed_heartbeats(100) == ""
    assert leg.missed_heartbeats(120) == ""
    assert leg.missed_heartbeats(121) == "missed its heartbeats, of which there is one in 10 s"
    assert leg.missed_heartbeats(119.5, leeway=2) != ""
    assert leg.heard(130) == 100
    transport.received += 1
    assert leg.heard(130) == 130
    assert leg.missed_heartbeats(130) == ""
    transport.is_listening = False
    assert leg.missed_heartbeats(1000) == ""
    transport.is_listening = True
    leg.note_heard(900)
    assert leg.missed_heartbeats(921) != ""
