"""The first bytes of a connection."""

from amqproxy.amqp010 import protocol_header
from amqproxy.amqp091.protocol_header import recognise


def test_it_is_recognised() -> None:
    assert recognise(protocol_header.HEADER) == protocol_header.NAME
    assert len(protocol_header.HEADER) == protocol_header.SIZE
