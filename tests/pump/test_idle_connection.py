"""An idle connection, whatever its protocol: its counters, and silent peers."""

from __future__ import annotations

from amqproxy.pump.idle_connection import IdleConnection


class Reader:
    """One that knows nothing of channels."""

    def __init__(self) -> None:
        self.skipped = (0, 0)

    def skip(self, size: int, frames: int = 0) -> None:
        self.skipped = self.skipped[0] + size, self.skipped[1] + frames


def test_readers_learn_what_has_passed_once() -> None:
    readers = Reader(), Reader()
    connection = IdleConnection(readers, (3, 4), lambda: None)
    connection.received_bytes[0], connection.taken[0], connection.frame_counts[0] = 20, 16, 2
    assert connection.show() == (20, 0)
    assert connection.show() == (0, 0)
    assert (readers[0].skipped, readers[1].skipped) == ((16, 2), (0, 0))
    others = Reader(), Reader()
    connection.adopt(others, (5, 7))
    assert connection.show() == (0, 0)
    assert (others[0].skipped, others[1].skipped) == ((16, 7), (0, 7))


def test_a_silent_peer_is_noticed_and_one_that_sends_is_not() -> None:
    connection = IdleConnection((Reader(), Reader()), (3, 4), lambda: None)
    connection.watch("me", (10.0, 0.0), (100.0, 100.0))
    assert not connection.is_silent(110.0)
    assert connection.is_silent(111.0)
    assert connection.heard(0) == 100.0
    connection.received_bytes[0] += 8
    assert connection.heard(0) is None, "it was heard since that was asked"
    assert not connection.is_silent(112.0)
    assert (connection.heard(0), connection.heard(1)) == (112.0, 100.0)
    assert connection.is_silent(123.0)
