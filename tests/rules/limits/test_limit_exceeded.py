"""Who goes over a limit hears of it in the way that fits what it asked."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionOpen, Method
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.context import ChannelFacts, Client, Seen
from amqproxy.rules.limits.limit_exceeded import overrun
from amqproxy.rules.reply_text import reply_text
from amqproxy.rules.verdict import Answer, Close, Verdict


def seen(channel: int, method: Method, *, is_confirming: bool = False) -> Seen:
    facts = ChannelFacts(number=channel, is_confirming=is_confirming)
    return Seen(sender=CLIENT, command=Command(channel, method), client=Client(), channel=facts)


CHANNEL = Close(Scope.CHANNEL, 506, "RESOURCE_ERROR - enough", CLIENT)
CONNECTION = Close(Scope.CONNECTION, 506, "RESOURCE_ERROR - enough", CLIENT)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (seen(1, BasicPublish()), Verdict(command=None, close=CHANNEL)),
        (seen(1, BasicPublish(), is_confirming=True), Verdict(command=None, answer=Answer.NACK)),
        (seen(1, ChannelOpen(), is_confirming=True), Verdict(command=None, close=CHANNEL)),
        (seen(0, ConnectionOpen()), Verdict(command=None, close=CONNECTION)),
    ],
)
def test_what_becomes_of_it(asked: Seen, answered: Verdict) -> None:
    assert overrun(asked, 506, "enough") == answered


def test_some_limits_close_all_the_same() -> None:
    assert overrun(seen(1, BasicPublish(), is_confirming=True), 506, "enough", may_nack=False).close == CHANNEL


def test_reply_texts() -> None:
    assert reply_text(406, "no") == "PRECONDITION_FAILED - no"
    assert reply_text(999, "no") == "no"
    assert reply_text(999, "é" * 300) == "é" * 126 + "..."
    assert len(reply_text(406, "é" * 300).encode()) <= 255
