"""Nobody waits for what goes no further."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicDeliver, BasicGetEmpty, BasicGetOk, BasicPublish
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.drop import dropped
from amqproxy.rules.verdict import Answer, Verdict
from tests.rules.scene import from_client, from_server


def test_the_sender_receives_the_chosen_answer() -> None:
    publish = from_client(BasicPublish()).command
    assert dropped(publish) == Verdict(command=None, is_final=True)
    assert dropped(publish, Answer.RETURN, (313, "x")) == Verdict(
        command=None, answer=Answer.RETURN, returned=(313, "x"), is_final=True
    )
    assert dropped(from_server(BasicDeliver()).command, Answer.REJECT).insertions == ()


def test_who_asked_for_a_message_hears_that_there_is_none() -> None:
    verdict = dropped(from_server(BasicGetOk(), number=5).command, Answer.REQUEUE)
    [empty] = verdict.insertions
    assert (verdict.answer, empty.to, empty.command.channel) == (Answer.REQUEUE, CLIENT, 5)
    assert empty.command.method == BasicGetEmpty()
