"""The state of an idle AMQP 0-9-1 connection."""

from __future__ import annotations

from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump.amqp091.idle_connection import Amqp091IdleConnection
from tests.pump.rig import PUBLISH, reader
from tests.transcripts.words import octets


def test_other_readers_go_on_where_the_first_were() -> None:
    readers = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    readers[0].feed(octets(f"{PUBLISH}, 2: basic.publish, 2: header 9, 2: body 4"))
    connection = Amqp091IdleConnection(readers, (3, 4), lambda: None)
    assert connection.show() == (0, 0)
    connection.adopt(None)
    connection.received_bytes[0] = connection.taken[0] = 16
    connection.frame_counts[0] = 2
    assert connection.show() == (16, 0)
    others = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    others[0].skip(readers[0].offset)
    connection.adopt(others, (readers[0].frames, readers[1].frames))
    assert connection.show() == (0, 0)
    assert (others[0].offset, others[0].frames) == (readers[0].offset + 16, readers[0].frames + 2)
    for number in (1, 2):
        before, after = readers[0].content_states[number], others[0].content_states[number]
        assert (after.expects, after.index, after.remaining, after.contents) == (
            before.expects,
            before.index,
            before.remaining,
            before.contents,
        )
    assert others[0].content_states[1].expects == METHOD
    assert others[0].content_states[2].remaining == 5
    others[0].feed(octets("2: body 5"))
    assert others[0].error is None
    assert connection.frames() == 2
    assert (connection.received(0), connection.received(1)) == (16, 0)


def test_states_are_packed_only_once_the_readers_go() -> None:
    connection = Amqp091IdleConnection((reader(CLIENT, 1), reader(SERVER, 1)), (3, 4), lambda: None)
    assert not connection._states
    connection.adopt(None)
    assert all(connection._states)
