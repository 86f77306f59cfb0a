"""Real peers, seen by a connection: what they send may be sent, but for what is named here."""

import pytest

from amqproxy.amqp010.connection import Connection, ConnectionState
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.protocol_header import SIZE
from amqproxy.peer import Peer
from tests.amqp010 import recorded
from tests.amqp010.captured import Pieces, connections

CAPTURES = {path.name.partition(".pcap")[0]: path for path in sorted(recorded.FOLDER.glob("*.pcap*"))}

DEVIATIONS = {
    # The program asked for these two, to see the exceptions with which the broker answers.
    ("brokerj9.2__jms-010-errors", 12): ["10.2 message.subscribe, unique-subscriber-destination"],
    ("brokerj9.2__jms-010-errors", 13): ["10.3 tx.commit, select-required"],
    # qpid-python acquires a message that needs no accept; qpidd cannot, and says that it did.
    ("qpidd1.40__qpidpy-010-types", 0): ["10.2 message.acquire", "10.2 message.acquire, one-to-one"],
}
RUBBISH = {
    # A program that sends a second header, an HTTP request and zeros behind a header of 0-10.
    ("brokerj9.2__version-negotiation", number): ""
    for number in (2, 3, 4)
}


def watched(pieces: Pieces, connection: Connection, cut: int = 0) -> None:
    """Show a connection what was sent, in pieces of `cut` bytes."""
    headers = dict.fromkeys(Peer, b"")
    for sender, data in pieces:
        missing = SIZE - len(headers[sender])
        if missing:
            headers[sender] += data[:missing]
            data = data[missing:]
            if len(headers[sender]) == SIZE:
                connection.receive_header(sender, headers[sender])
        for start in range(0, len(data), cut or len(data) or 1):
            connection.feed(sender, data[start : start + (cut or len(data))])


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize("name", CAPTURES)
def test_real_peers_keep_to_the_rules(name: str, cut: int) -> None:
    for number, pieces in enumerate(connections(CAPTURES[name])):
        deviations: list[ProtocolError] = []
        connection = Connection(deviations=deviations)
        if (name, number) in RUBBISH:
            with pytest.raises(ProtocolError):
                watched(pieces, connection, cut)
            continue
        watched(pieces, connection, cut)
        assert [each.section for each in deviations] == DEVIATIONS.get((name, number), [])
        if "version" not in name:
            assert connection.state is ConnectionState.CLOSED
            assert not any(channel.sessions[peer] for channel in connection.channels.values() for peer in Peer)


def test_there_are_captures_of_two_brokers() -> None:
    assert {name.partition("__")[0] for name in CAPTURES} == {"brokerj9.2", "qpidd1.40"}
