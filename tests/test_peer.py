"""The two peers."""

from amqproxy.amqp091 import transitions
from amqproxy.peer import CLIENT, SERVER, Peer


def test_a_peer_has_another() -> None:
    assert (CLIENT.other, SERVER.other) == (SERVER, CLIENT)
    assert [str(peer) for peer in Peer] == ["client", "server"]


def test_both_protocols_have_the_same_peers() -> None:
    assert transitions.Peer is Peer
