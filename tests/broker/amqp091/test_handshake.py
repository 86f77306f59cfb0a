"""The handshake on its own: the client's protocol header, and its answer."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.protocol_header import HEADER, NAME
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp091.handshake import VERSIONS, Handshake, start


def test_a_header_may_come_in_pieces_and_with_what_follows_it() -> None:
    opening = Handshake()
    assert not opening.has_begun
    assert opening.protocol(HEADER[:3]) is None
    assert opening.has_begun
    assert opening.protocol(HEADER[3:] + b"rest") == NAME
    assert opening.behind_header == b"rest"


@pytest.mark.parametrize(("protocol", "version"), VERSIONS.items())
def test_start_has_the_version_of_the_protocol(protocol: str, version: tuple[int, int]) -> None:
    answer = start(protocol, Table({"product": "a"}), b"PLAIN")
    assert (answer.version_major, answer.version_minor) == version
    assert answer.server_properties == Table({"product": "a"})
    assert answer.mechanisms == b"PLAIN"
