"""A leg of 0-10."""

import pytest

from amqproxy.amqp010.tally import Tally
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy import amqp010_leg
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from tests.amqp010.transcript import steps_of
from tests.proxy.amqp010_interception.amqp010_stage import ATTACHING, OPENING


@pytest.mark.parametrize(("peer", "name"), [(CLIENT, "client"), (SERVER, "upstream")])
def test_it_counts_what_its_peer_sends(peer: Peer, name: str) -> None:
    tallies = {each: Tally() for each in Peer}
    leg = AMQP010Leg(peer, None, tallies)
    assert leg.name == name
    assert leg.reader.tally is tallies[peer]


def test_it_remembers_few_of_the_sessions_that_are_detached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp010_leg, "MOST_RETAINED", 2)
    connection = AMQP010Leg(CLIENT, None).connection
    script = OPENING
    for name in "abc":
        script += ATTACHING.replace("name_=s", f"name_={name}")
        script += f"""
            >> 1 session.request-timeout timeout=60
            << 1 session.timeout timeout=60
            >> 1 session.detach name_={name}
            << 1 session.detached name_={name} code=0
        """
    for step in steps_of(script):
        if step.is_header:
            connection.receive_header(step.sender, step.data)
        else:
            connection.feed(step.sender, step.data)
    assert list(connection.retained) == [b"a", b"b"]
