"""What is allowed passes, and no later rule is asked."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Verdict
from tests.rules.commands import command


def test_it_has_the_last_word() -> None:
    sent = command(BasicPublish())
    context = CommandContext(sender=CLIENT, command=sent, client=Client())
    assert Allow(name="a").decide(context, RuleState(None, None)) == Verdict(command=sent, is_final=True)
