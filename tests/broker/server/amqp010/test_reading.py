"""What is read once more of a connection of 0-10."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.tally import Tally
from amqproxy.broker.server.amqp010.reading import Amqp010Reading
from amqproxy.peer import CLIENT, SERVER, Peer
from tests.proxy.amqp010_script import ATTACH, method

SYNC = method(ExecutionSync())


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_brokers_header_comes_first(size: int) -> None:
    tallies = {peer: Tally() for peer in Peer}
    reading = Amqp010Reading(tallies)
    sent, headers, found = HEADER + SYNC * 2, [], []
    for start in range(0, len(sent), size):
        header, data = reading.take_header(sent[start : start + size])
        headers += [header] if header else []
        frames, _, error = reading.read(SERVER, data)
        assert error is None
        found += frames
    assert headers == [HEADER]
    assert [frame.offset for frame in found] == [8, 8 + len(SYNC)]
    assert sum(tallies[SERVER].frames) == 2


def test_frames_as_taps_are_shown_them() -> None:
    reading = Amqp010Reading(None)
    frames, command_ids, _ = reading.read(CLIENT, ATTACH[0][1] + SYNC + SYNC[:3])
    chunk = reading.chunk(command_ids)
    assert (chunk.data, chunk.offset, len(chunk)) == (ATTACH[0][1] + SYNC, 8, len(frames))
    assert command_ids == [None, None, 0]


def test_what_is_no_frame_ends_its_direction() -> None:
    reading = Amqp010Reading(None)
    frames, _, error = reading.read(CLIENT, SYNC + b"\xff" * 15)
    assert error is not None
    assert (len(frames), error.received) == (1, b"\xff" * 15)
    assert reading.read(CLIENT, SYNC) == ([], [], None)
    assert len(reading.read(SERVER, SYNC)[0]) == 1
