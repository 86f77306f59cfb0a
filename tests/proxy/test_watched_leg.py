"""A leg as the watchdog sees it, of either protocol."""

from types import SimpleNamespace

import pytest

from amqproxy.amqp010.connection import Connection as Connection010
from amqproxy.amqp091.connection import Connection
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.watched_leg import BeatingConnection, WatchedLeg


@pytest.mark.parametrize("kind", [Connection, Connection010])
@pytest.mark.parametrize(("peer", "name"), [(CLIENT, "client"), (SERVER, "upstream")])
def test_who_is_read_from_and_sends_nothing_is_silent(kind: type[BeatingConnection], peer: Peer, name: str) -> None:
    connection = kind()
    transport = SimpleNamespace(received=0, is_listening=True)
    leg = WatchedLeg(peer, transport, connection)  # type: ignore[arg-type]
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
