"""The two peers."""

from amqproxy.amqp091 import transitions
from amqproxy.peer import CLIENT, SERVER, Heartbeats, Peer


def test_a_peer_has_another() -> None:
    assert (CLIENT.other, SERVER.other) == (SERVER, CLIENT)
    assert [str(peer) for peer in Peer] == ["client", "server"]


def test_both_protocols_have_the_same_peers() -> None:
    assert transitions.Peer is Peer


def test_a_peer_is_silent_after_two_intervals_and_sends_one_after_half() -> None:
    heartbeats = Heartbeats()
    heartbeats.heartbeat = 10
    heartbeats.note_received(CLIENT, 100.0)
    assert not heartbeats.is_silent(CLIENT, 120.0)
    assert heartbeats.is_silent(CLIENT, 120.5)
    assert not heartbeats.is_heartbeat_due(SERVER, 100.0)  # from when it is first asked on
    assert not heartbeats.is_heartbeat_due(SERVER, 104.5)
    assert heartbeats.is_heartbeat_due(SERVER, 105.0)


def test_without_an_interval_nothing_is_due() -> None:
    heartbeats = Heartbeats()
    heartbeats.note_received(CLIENT, 0.0)
    assert not heartbeats.is_silent(CLIENT, 1e6)
    assert not heartbeats.is_heartbeat_due(CLIENT, 1e6)
