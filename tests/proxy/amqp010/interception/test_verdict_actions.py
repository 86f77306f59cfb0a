"""What becomes of a command by a verdict that is carried out on it."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionSync, QueueDeclare
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp091.errors import Scope
from amqproxy.peer import CLIENT
from amqproxy.rules.verdict import Close, Verdict
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage

HOLD = 'action = "hold"\nmatch.method = "queue.declare"\ntimeout = 600'


def held() -> Amqp010Stage:
    """A stage on which the client's queue.declare waits."""
    stage = Amqp010Stage(HOLD)
    assert stage.feed(CLIENT, encode_method(1, QueueDeclare("q")) + encode_method(1, ExecutionSync())) == []
    return stage


def release(stage: Amqp010Stage, verdict: Verdict | None) -> list[str]:
    [number] = stage.interceptor.waiting
    stage.interceptor.release(number, verdict, 0)
    return stage.listen()


def test_what_may_pass_goes_on_as_it_came() -> None:
    assert release(held(), None) == ["=> 1 queue.declare queue=q", "=> 1 execution.sync"]


def test_what_goes_no_further_leaves_an_empty_command() -> None:
    assert release(held(), Verdict(command=None)) == ["=> 1 execution.sync", "=> 1 execution.sync"]


def test_a_session_or_the_connection_is_closed() -> None:
    stage = held()
    heard = release(stage, Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")))
    assert [each.split()[:3] for each in heard] == [
        ["=>", "1", "session.detach"],
        ["<=", "1", "execution.exception"],
        ["<=", "1", "session.detach"],
    ]
    assert stage.interceptor.refusal is None
    stage = held()
    heard = release(stage, Verdict(command=None, close=Close(Scope.CONNECTION, 320, "no")))
    assert heard == [
        "=> connection.close reply_code=320 reply_text=closed by a rule of the proxy",
        "<= connection.close reply_code=320 reply_text=no",
    ]
    assert stage.interceptor.refusal is not None


def test_what_cannot_be_sent_is_refused_and_logged() -> None:
    stage = held()
    [number] = stage.interceptor.waiting
    view = stage.interceptor.waiting[number][1].waiting
    assert view is not None
    heard = release(stage, Verdict(command=view.original, behind=1))
    assert "error_code=541" in heard[1]
    [(level, text)] = stage.interceptor.take_effects().logged
    assert (level, text) == ("error", "refused what was made: commands of AMQP 0-10 cannot be reordered")
