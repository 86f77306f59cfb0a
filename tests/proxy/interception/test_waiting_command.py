"""For how long a command waits, and what that costs."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.proxy.interception.queued_bytes import cost_of_own
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.verdict import HoldAction, Verdict

PUBLISH = Command(1, BasicPublish("", "q"), body=b"x")


@pytest.mark.parametrize(
    ("delay", "hold", "seconds"),
    [(2.0, None, 2.0), (0.0, HoldAction("h", 60.0), 60.0), (2.0, HoldAction("h", 60.0), 62.0)],
)
def test_it_waits_for_its_delay_and_then_for_an_operator(delay: float, hold: HoldAction | None, seconds: float) -> None:
    waiting = WaitingCommand(PUBLISH, Verdict(command=PUBLISH, delay=delay, hold=hold), 0)
    waiting.begin(7, 100.0)
    assert (waiting.number, waiting.since, waiting.until) == (7, 100.0, 100.0 + seconds)


def test_what_a_rule_has_made_of_it_is_charged_too() -> None:
    made = Command(1, BasicPublish("", "p"), body=b"y" * 100)
    assert WaitingCommand(PUBLISH, Verdict(command=made), 5, "received").cost == 5 + cost_of_own(made)
