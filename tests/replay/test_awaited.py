"""How long what was recorded is waited for, and when a broker is given up."""

from __future__ import annotations

from amqproxy.replay.awaited import Awaited
from amqproxy.replay.broker_link import Life
from amqproxy.replay.result import ReplayResult
from tests.replay.amqp010.recordings import Amqp010Recording


class Connection:
    """A connection on which nothing comes."""

    def __init__(self) -> None:
        self.life = Life.CONNECTED
        self.error = ""
        self.received = 0

    def fault(self, reason: str) -> None:
        self.life, self.error = Life.ENDED, reason


def test_each_step_is_waited_for_and_two_in_vain_are_enough() -> None:
    recording = Amqp010Recording()
    recording.open(0)
    one, other, third = list(recording.steps())[2:5]
    connection, result = Connection(), ReplayResult()
    awaited = Awaited(connection, result, 5.0)
    assert awaited.answer(one, 10.0, 10.0, is_over=False, why_over="over") == 15.0
    assert awaited.has_begun(one)
    assert awaited.answer(one, 12.0, 14.9, is_over=False, why_over="over") == 15.0
    assert awaited.answer(one, 12.0, 15.0, is_over=False, is_quiet=True, why_over="over") is None
    connection.received = 1
    for step, begin in ((other, 20.0), (third, 30.0)):
        assert connection.life is Life.CONNECTED
        assert awaited.answer(step, begin, begin, is_over=False, is_quiet=True, why_over="over") == begin + 5
        awaited.answer(step, begin, begin + 5, is_over=False, is_quiet=True, why_over="over")
    assert connection.error == "the broker has not answered for 2 times 5 s"


def test_before_a_command_is_sent() -> None:
    recording = Amqp010Recording()
    recording.open(0)
    one, other = list(recording.steps())[2:4]
    connection = Connection()
    awaited = Awaited(connection, ReplayResult(), 5.0)
    assert awaited.patience(one, 10.0, "the broker does not read") == 15.0
    assert awaited.patience(other, 16.0, "") == 21.0
    assert awaited.patience(other, 21.0, "") is None
    assert connection.life is Life.CONNECTED
    awaited.patience(one, 30.0, "the broker does not read")
    awaited.patience(one, 35.0, "the broker does not read")
    assert connection.error == "the broker does not read"
