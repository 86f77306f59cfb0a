"""What is read once more of a connection of 0-9-1; `test_connection_tap` has the rest."""

from __future__ import annotations

from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.broker.server.amqp091.reading import Amqp091Reading
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.metrics import Metrics


def test_frames_are_counted_by_their_sender() -> None:
    metrics = Metrics()
    reading = Amqp091Reading(metrics)
    assert reading.take_header(HEARTBEAT_FRAME) == (b"", HEARTBEAT_FRAME)
    assert reading.read(SERVER, HEARTBEAT_FRAME + HEARTBEAT_FRAME[:3]) == (True, None)
    reading.count(SERVER, 1.0)
    assert tuple(sum(metrics.tallies["0-9-1"][peer].frames) for peer in (SERVER, CLIENT)) == (1, 0)


def test_what_is_no_frame_ends_its_direction() -> None:
    reading = Amqp091Reading(None)
    has_frames, error = reading.read(CLIENT, HEARTBEAT_FRAME + b"\xff" * 15)
    assert has_frames
    assert error is not None
    assert error.received == b"\xff" * 15
    assert reading.read(CLIENT, HEARTBEAT_FRAME) == (False, None)
    assert reading.read(SERVER, HEARTBEAT_FRAME) == (True, None)
