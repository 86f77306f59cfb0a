"""Commands that wait."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp091.methods import BY_NAME, BasicPublish
from amqproxy.rules.rule import Cacheable, initial_state
from amqproxy.rules.verdict import HoldAction, Stage, Verdict
from tests.rules.scene import decided, from_client, rule


@pytest.mark.parametrize(
    ("text", "hold"),
    [
        ("", HoldAction("r", 60.0)),
        ("timeout = 5", HoldAction("r", 5.0)),
        ("timeout = 0.5\non_timeout = 'refuse'", HoldAction("r", 0.5, passes_at_timeout=False)),
    ],
)
def test_a_command_is_held(text: str, hold: HoldAction) -> None:
    made = rule('action = "hold"\n' + text)
    context = from_client(BasicPublish(), body=b"x")
    assert made.needs is Stage.BODY
    assert not isinstance(made, Cacheable)
    assert decided(made, context) == Verdict(command=context.command, hold=hold)


def test_so_many_commands_are_held_and_the_others_pass() -> None:
    made = rule('action = "hold"\ncount = 2')
    context = from_client(BasicPublish(), body=b"x")
    state = initial_state(made)
    assert [made.decide(context, state).hold is not None for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize(("text", "counts"), [("", True), ("match.method = 'basic.publish'", False)])
def test_deliveries_are_counted_from_the_first_where_an_operator_may_drop_one(text: str, counts: bool) -> None:
    assert rule('action = "hold"\n' + text).reads_unacked is counts


def test_what_has_a_deadline_of_its_own_is_not_held() -> None:
    unheld = set(BY_NAME) - rule('action = "hold"').methods
    assert {name for name in unheld if not name.startswith("connection.")} == {"channel.close", "channel.close-ok"}
    assert {name for name in BY_NAME if name.startswith("connection.")} <= unheld


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("timeout = 0", "> 0"),
        ("timeout = 86400", "<= 3600"),
        ("on_timeout = 'wait'", "Invalid enum value"),
        ("match.method = 'connection.open'", "connection.open cannot be held"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(text: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        rule('action = "hold"\n' + text)
