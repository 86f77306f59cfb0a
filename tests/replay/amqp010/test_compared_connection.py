"""What of a broker's answers over AMQP 0-10 is compared with the recorded ones."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionResult, MessageAccept, MessageReject
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import SERVER
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.amqp010.compared_connection import Amqp010ComparedConnection
from amqproxy.replay.amqp010.session import PlayedSession
from amqproxy.replay.broker_link import Life, ReplayedStream
from amqproxy.replay.deliveries import DeliveryBoard
from amqproxy.replay.names import SharedNames
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.target import Target
from tests.replay.amqp010.recordings import completed


def compared(suffix: str = "") -> tuple[Amqp010ComparedConnection, PlayedSession]:
    """A connection with a session, of which the recorded command 10 was sent as 0."""
    names, board = SharedNames(suffix), DeliveryBoard()
    replayed = ReplayedStream(1, "a-b", Target(), names, board, ReplayResult())
    live = Amqp010ComparedConnection(replayed, timeout=2.0, wake=lambda: None)
    live.life = Life.CONNECTED
    session = live._sessions[1] = PlayedSession(1, b"s")
    session.is_attached = True
    session.sent(10)
    return live, session


def step(method: Method, index: int = 0) -> AssemblySent:
    return AssemblySent(
        index=index, ts_ns=0, stream=1, connection="a-b", sender=SERVER, command=Assembly(1, method), command_id=0
    )


def test_a_completion_is_waited_for_and_then_missing() -> None:
    live, session = compared()
    assert live._await_server(step(completed((10, 10))), 1.0) == 3.0
    session.completed.add(range(1))
    assert live._await_server(step(completed((10, 10))), 1.0) is None
    assert (live._result.answers, live._result.difference_count) == (1, 0)
    session.sent(11)
    live._now = 9.0
    assert live._await_server(step(completed((10, 11)), 1), 1.0) is None
    assert [(each.kind, each.method) for each in live._result.differences] == [("missing", "session.completed")]


def test_a_broker_that_does_not_answer_any_more_is_given_up() -> None:
    live, session = compared()
    for index, number in enumerate((10, 11, 12)):
        session.sent(number)
        assert live._await_server(step(completed((10, number)), index), live._now) in (live._now + 2.0, None)
        live._now += 3.0
        assert live._await_server(step(completed((10, number)), index), live._now) is None
    assert live.life is Life.ENDED
    assert "not answered for 2 times 2 s" in live.error


@pytest.mark.parametrize(("suffix", "queue"), [("", "q"), (".2", "q.2")])
def test_results_without_what_depends_on_the_moment(suffix: str, queue: str) -> None:
    live, session = compared(suffix)
    session.results[0] = ExecutionResult(0, QueueQueryResult(queue, durable=True, message_count=7))
    recorded = ExecutionResult(10, QueueQueryResult("q", message_count=3))
    assert live._await_server(step(recorded), 1.0) is None
    (difference,) = live._result.differences
    assert [each.field for each in difference.changes] == ["value.durable"]


def test_a_message_that_is_settled_otherwise() -> None:
    live, session = compared()
    session.settled[0] = MessageAccept.name
    assert live._await_server(step(MessageAccept(SequenceSet([(10, 10)]))), 1.0) is None
    assert live._result.difference_count == 0
    assert live._await_server(step(MessageReject(SequenceSet([(10, 10)]), 1), 1), 1.0) is None
    (difference,) = live._result.differences
    assert (difference.method, difference.changes[0].after) == ("message.reject", "message.accept")


def test_what_was_not_sent_has_no_answer() -> None:
    live, _ = compared()
    assert live._await_server(step(ExecutionResult(99, None)), 1.0) is None
    assert live._await_server(step(MessageAccept(SequenceSet([(50, 60)]))), 1.0) is None
    assert live._result.difference_count == 0
