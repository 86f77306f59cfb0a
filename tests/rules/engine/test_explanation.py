"""What rules do, in words; and who would be asked about a command."""

from __future__ import annotations

import pytest

from amqproxy.rules.access.acl import AccessList
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.engine.explanation import ExplainedCommand, explained
from amqproxy.rules.matching.clock_time import ClockTime
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import Rule

RULES: list[Rule] = [
    AccessList(
        name="access",
        match=Match(vhost="!test"),
        lines='allow user "orders-*" to publish exchange "orders.*"  # ours\nallow user "ops" to any; otherwise deny',
    ),
    Refuse(name="big", match=Match(size=Sizes(min="64KiB")), way="nack", mode="shadow"),
    Refuse(
        name="odd",
        match=Match(
            method="basic.publish",
            headers={"tier": "gold", "test": False},
            time=ClockTime(start="22:00", to="06:00", days=("sat", "sun")),
        ),
        when="exchange == 'x'",
    ),
    Allow(name="rest"),
]


def explanation_of(inquiry: ExplainedCommand) -> str:
    return "\n".join(explained(RULES, inquiry))


def test_each_rule_in_words() -> None:
    assert (
        explanation_of(ExplainedCommand({}))
        == """\
1. acl `access`
   about: commands where vhost is not `test`
   does:  Ask the `lines` in order: what the first that holds allows goes on to the next rule, what it denies is \
refused.
   line 1: allow user "orders-*" to publish exchange "orders.*"
   line 2: allow user "ops" to any
   line 2b: otherwise deny
2. refuse `big` (in shadow: it counts, and changes nothing)
   about: basic.deliver, basic.get-ok, basic.publish, basic.return where size is at least 64KiB
   does:  Do not send it on, and send its sender an error; of what the broker sends, the client. (with = 'nack')
   needs: the method and the message's header
3. refuse `odd`
   about: basic.publish where headers tier is `gold`, headers test is not there, the time is from 22:00 to \
06:00 (+00:00) on sat, sun, exchange == 'x'
   does:  Do not send it on, and send its sender an error; of what the broker sends, the client.
   needs: the method and the message's header
4. allow `rest`
   about: every command
   does:  Let it pass; no later rule is asked.
   needs: the method alone"""
    )


@pytest.mark.parametrize(
    ("inquiry", "answers", "last"),
    [
        (
            ExplainedCommand({"user": "orders-1", "vhost": "/", "exchange": "orders.eu"}, "basic.publish"),
            [
                "holds",
                *["is not asked, since `access, line 1` holds"] * 2,
                "may hold: depends on size",
                "does not hold: exchange is another",
                "holds",
            ],
            "To evaluate this basic.publish, amqproxy waits for the method and the message's header.",
        ),
        (
            ExplainedCommand({"user": "guest", "vhost": "/"}, "queue.declare"),
            [
                "does not hold: user is another",
                "does not hold: user is another",
                "holds",
                *["is not asked, since `access, line 2b` holds"] * 3,
            ],
            "To evaluate this queue.declare, amqproxy waits for the method alone.",
        ),
        (
            ExplainedCommand({"vhost": "test"}),
            [
                *["does not hold: vhost is another"] * 3,
                "may hold: depends on method, size",
                "may hold: depends on exchange, headers, method, time",
                "may hold: depends on method",
            ],
            None,
        ),
    ],
)
def test_who_would_be_asked(inquiry: ExplainedCommand, answers: list[str], last: str | None) -> None:
    lines = explanation_of(inquiry).split("\n")
    assert [line.partition("here:  ")[2] for line in lines if "here:" in line] == answers
    if last is not None:
        assert lines[-1] == last


@pytest.mark.parametrize(
    ("given", "method", "what"),
    [
        ({}, "basic.pubish", "there is no method `basic.pubish`: did you mean `basic.publish`?"),
        ({"queue": "q"}, "basic.publish", "basic.publish has no queue"),
        ({"queue": "q"}, None, "to know what queue is meant, name a method too"),
    ],
)
def test_what_does_not_go_together(given: dict[str, str], method: str | None, what: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        ExplainedCommand(given, method)
    assert str(raised.value) == what
