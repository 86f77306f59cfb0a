"""Codes of the ends of sessions."""

from amqproxy.amqp010.commands import ExecutionException, ExecutionSync
from amqproxy.amqp010.controls import SessionDetach, SessionDetached
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.amqp010.session_ends import SessionEnds


def test_a_detach_counts_and_its_answer_does_not() -> None:
    ends = SessionEnds()
    assert ends.code(CLIENT, 1, SessionDetach(b"s")) == 200
    assert ends.code(SERVER, 1, SessionDetach(b"s")) is None, "both at once"
    assert ends.code(SERVER, 1, SessionDetached(b"s", 0)) is None
    assert ends.code(CLIENT, 1, SessionDetach(b"s")) == 200, "of the next session"
    assert ends.code(CLIENT, 2, ExecutionSync()) is None


def test_an_exception_comes_first() -> None:
    ends = SessionEnds()
    assert ends.code(SERVER, 1, ExecutionException(404)) is None
    assert ends.code(SERVER, 2, SessionDetached(b"t", 2)) == 2
    assert ends.code(SERVER, 1, SessionDetach(b"s")) == 404
    assert ends.code(CLIENT, 1, SessionDetached(b"s", 0)) is None
    assert ends.code(SERVER, 3, SessionDetached(b"s", 0)) == 200
