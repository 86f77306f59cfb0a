"""A leg of 0-10."""

import pytest

from amqproxy.amqp010.tally import Tally
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg


@pytest.mark.parametrize(("peer", "name"), [(CLIENT, "client"), (SERVER, "upstream")])
def test_it_counts_what_its_peer_sends(peer: Peer, name: str) -> None:
    tallies = {each: Tally() for each in Peer}
    leg = AMQP010Leg(peer, None, tallies)
    assert leg.name == name
    assert leg.reader.tally is tallies[peer]
