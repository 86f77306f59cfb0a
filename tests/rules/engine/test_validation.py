"""What is wrong with rules as a whole."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.validation import check
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import ImpairsStream, Rule, RuleState
from amqproxy.rules.verdict import Verdict


class AtStart(Rule, ImpairsStream, frozen=True, tag="at-start"):
    pass


class Publishes(Rule, frozen=True, tag="publishes"):
    methods = frozenset({"basic.publish"})


class Publishing(Rule, frozen=True, tag="publishing"):
    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        changed = BasicPublish(exchange="x" * 256)
        return Verdict(command=context.command.altered(changed))


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        ([Allow(name="a"), Allow(name="b"), Allow(name="a")], ".rules[2].name: `a` is the name of rules[0] too"),
        ([Allow(name="")], ".rules[0].name: a rule needs a name"),
        ([Allow(name="a"), Allow(name="b", when="exchnge == 1")], ".rules[1].when: there is no `exchnge`: did you"),
        (
            [Allow(name="a", match=Match(destination="e", size=Sizes()))],
            ".rules[0].match: no method has all that is asked",
        ),
        (
            [Publishes(name="a", match=Match(destination="e"))],
            ".rules[0].match: this action can do nothing about any of the methods that are matched",
        ),
        (
            [Publishes(name="a", match=Match(sender="server"))],
            ".rules[0].match.sender: the server sends none of the methods that are matched",
        ),
        (
            [AtStart(name="a", match=Match(exchange="e"), when="size > 1")],
            ".rules[0]: it acts on whole connections, which have no exchange or size: match by what is known of",
        ),
        (
            [AtStart(name="a", match=Match(method="basic.publish"))],
            ".rules[0]: it acts on whole connections, which have no method",
        ),
        (
            [Publishing(name="a", match=Match(method="basic.publish"))],
            ".rules[0]: what it makes of a basic.publish cannot be sent: basic.publish cannot be encoded",
        ),
    ],
)
def test_what_is_wrong(rules: list[Rule], what: str) -> None:
    with pytest.raises(ValueError, match="rules") as raised:
        check(rules)
    assert str(raised.value).startswith(what)


def test_what_is_fine() -> None:
    check([])
    check([Allow(name="a"), AtStart(name="b", match=Match(user="u", sample=5), when="time.getHours() > 3")])
    check([Allow(name="a", match=Match(method="heartbeat", sender="server"))])
