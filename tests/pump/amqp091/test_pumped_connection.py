"""What goes to a pump with a connection, and what comes back."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import BODY, METHOD
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import RECALLED
from tests.pump.rig import PUBLISH, Wire, reader
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_only_whole_frames_pass_and_the_rest_comes_back(wire: Wire) -> None:
    lease = wire.hand_over()
    data = octets(PUBLISH)
    wire.client.send(data[:-3])
    wire.settle()
    assert words(bytes(wire.seen[1])) == "1: basic.publish, 1: header 5"
    wire.pump.recall(lease)
    assert wire.returned == 1
    assert lease.reason == RECALLED
    passed = len(wire.seen[1])
    assert lease.rest(0) == data[passed:-3]
    assert lease.show() == (len(data) - 3, 0)
    assert wire.readers[0].offset == passed
    assert wire.readers[0].frames == 2
    assert wire.readers[0].content_states[1].expects == BODY
    assert wire.readers[0].feed(lease.rest(0) + data[-3:]) == []
    assert wire.readers[0].content_states[1].expects == METHOD


def test_what_a_reader_holds_of_a_frame_goes_along(wire: Wire) -> None:
    data = octets(PUBLISH)
    wire.readers[0].feed(data[:10])
    wire.hand_over()
    assert wire.readers[0].held == b""
    wire.client.send(data[10:])
    wire.settle()
    assert bytes(wire.seen[1]) == data


def test_other_readers_know_what_has_passed_since_the_connection_was_handed_over(wire: Wire) -> None:
    lease = wire.hand_over()
    lease.adopt(None)
    wire.client.send(octets(f"{PUBLISH}, 1: basic.publish"))
    wire.settle()
    size = len(octets(f"{PUBLISH}, 1: basic.publish"))
    assert lease.show() == (size, 0)
    readers = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    for _ in range(2):  # others again know all of it
        lease.adopt(readers, (5, 7))
        lease.show()
        assert (readers[0].frames, readers[1].frames) == (9, 7)
        assert readers[0].content_states[1].contents == 2
        assert readers[0].offset == size
        readers = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    assert (lease.received(0), lease.received(1)) == (size, 0)
    wire.close()
