"""What the kinds of limits have in common: nothing to remember, and nothing to give back, unless they say so."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import Client, Seen
from amqproxy.rules.limits.limit_kind import Measure
from amqproxy.rules.rule import Memory
from amqproxy.rules.verdict import Stage


def test_what_a_measure_is_without_its_own() -> None:
    measure = Measure(frozenset({"basic.publish"}), "refuse", 506, "enough")
    memory = Memory(measure.begin(), measure.begin_session())
    seen = Seen(sender=CLIENT, command=Command(1, BasicPublish()), client=Client())
    assert measure.needs is Stage.METHOD
    assert not measure.restores(CLIENT)
    assert not measure.restores(SERVER)
    measure.restore(seen, memory)
    measure.channel_closed(1, memory)
    measure.session_over(memory)
    with pytest.raises(NotImplementedError):
        measure.decide(seen, memory)
