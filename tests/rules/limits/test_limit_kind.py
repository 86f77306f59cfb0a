"""What the kinds of limits have in common: nothing to keep or give back by default, and the verdict above a limit."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionOpen, Method
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.limits.limit_kind import LimitKind, limit_exceeded
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict


def test_what_a_measure_is_without_its_own() -> None:
    measure = LimitKind(frozenset({"basic.publish"}), "refuse", 506, "enough")
    memory = RuleState(measure.begin(), measure.begin_session())
    context = CommandContext(sender=CLIENT, command=Command(1, BasicPublish()), client=Client())
    assert measure.needs is Stage.METHOD
    assert not measure.notes(CLIENT)
    assert not measure.notes(SERVER)
    measure.note(context, memory)
    with pytest.raises(NotImplementedError):
        measure.decide(context, memory)


def context(channel: int, method: Method, *, is_confirming: bool = False) -> CommandContext:
    facts = ChannelInfo(number=channel, is_confirming=is_confirming)
    return CommandContext(sender=CLIENT, command=Command(channel, method), client=Client(), channel=facts)


CHANNEL = Close(Scope.CHANNEL, 506, "RESOURCE_ERROR - enough", CLIENT)
CONNECTION = Close(Scope.CONNECTION, 506, "RESOURCE_ERROR - enough", CLIENT)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (context(1, BasicPublish()), Verdict(command=None, close=CHANNEL)),
        (context(1, BasicPublish(), is_confirming=True), Verdict(command=None, answer=Answer.NACK)),
        (context(1, ChannelOpen(), is_confirming=True), Verdict(command=None, close=CHANNEL)),
        (context(0, ConnectionOpen()), Verdict(command=None, close=CONNECTION)),
    ],
)
def test_what_becomes_of_it(asked: CommandContext, answered: Verdict) -> None:
    assert limit_exceeded(asked, 506, "enough") == answered


def test_some_limits_close_all_the_same() -> None:
    publish = context(1, BasicPublish(), is_confirming=True)
    assert limit_exceeded(publish, 506, "enough", may_nack=False).close == CHANNEL
