"""What a method alone decides, and on what terms."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import Cacheable, Rule, RuleState, Stateful
from amqproxy.rules.verdict import Stage, Verdict
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Deny, Rename, RenameNow

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


def test_what_surely_passes_needs_no_staging_but_is_counted() -> None:
    rules = RuleSet([Allow(name="allow", match=Match(exchange="a")), Deny(name="deny")])
    evaluator = rules.evaluator(GUEST)
    frame = command(BasicPublish(exchange="a")).frames[0]
    known = evaluator.passing(CLIENT, frame, ChannelInfo(), 0.0)
    assert known is not None
    known.count(3)
    assert evaluator.stage(CLIENT, frame, ChannelInfo()) is Stage.NOTHING
    assert rules.counts()["allow"].hits == 4
    assert known.method is None
    assert evaluator.passing(CLIENT, command(BasicPublish(exchange="b")).frames[0], ChannelInfo(), 0.0) is None
    era = evaluator.era
    evaluator.know(GUEST)
    assert evaluator.era > era


def test_what_always_goes_on_as_another_method_need_not_be_evaluated_either() -> None:
    rename = Rename(name="rename", match=Match(exchange="a", method="basic.publish"), to="b")
    rules = RuleSet([rename, Deny(name="deny", when="routing_key == 'bad'")])
    evaluator = rules.evaluator(GUEST)
    frame = command(BasicPublish(exchange="a")).frames[0]
    spared = evaluator.passing(CLIENT, frame, ChannelInfo(), 0.0)
    assert spared is not None
    assert (spared.method, spared.allowances) == (BasicPublish(exchange="b"), ())
    spared.count(2)
    assert rules.counts()["rename"].hits == 2
    refused = command(BasicPublish(exchange="a", routing_key="bad")).frames[0]
    assert evaluator.passing(CLIENT, refused, ChannelInfo(), 0.0) is None


def test_what_hangs_on_names_in_the_header_need_not_be_evaluated_where_there_are_none() -> None:
    deny = Deny(name="deny", match=Match(routing_key="bad"))
    evaluator = RuleSet([deny, Draw(name="draw", match=Match(routing_key="k"), tickets=3)]).evaluator(GUEST)
    found = {}
    for key in ("good", "k", "bad"):
        spared = evaluator.passing(CLIENT, command(BasicPublish(routing_key=key)).frames[0], ChannelInfo(), 0.0)
        found[key] = None if spared is None else (spared.if_plain, [each.left for each in spared.allowances])
    assert found == {"good": (True, []), "k": (True, [3]), "bad": None}
    evaluator = RuleSet([Deny(name="deny", match=Match(exchange="bad"))]).evaluator(GUEST)
    spared = evaluator.passing(CLIENT, command(BasicPublish(exchange="good")).frames[0], ChannelInfo(), 0.0)
    assert spared is not None
    assert not spared.if_plain


class Draw(Rule, Cacheable, Stateful, frozen=True, tag="draw"):
    """Lets pass what draws a ticket, of which there are few for a whole user, and refuses the rest."""

    tickets: int

    is_constant = False

    def begin(self) -> Credit:
        return Credit(self.tickets)

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        tickets: Credit = memory.shared
        return tickets

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        memory.shared.left -= 1
        is_refused = memory.shared.left < 0
        return Verdict(command=None if is_refused else context.command)


def test_limits_on_size_need_not_be_asked_about_smaller_bodies() -> None:
    sizes = [Limit(name=f"{most}", of="message_size", most=most) for most in (2000, 1000)]
    orders = Limit(name="orders", of="message_size", most=10, match=Match(exchange="orders"))
    evaluator = RuleSet([*sizes, orders]).evaluator(GUEST)
    found = {}
    for exchange in ("orders", "others"):
        spared = evaluator.passing(CLIENT, command(BasicPublish(exchange=exchange)).frames[0], ChannelInfo(), 0.0)
        found[exchange] = spared and (spared.largest, spared.method, spared.allowances)
    assert found == {"orders": (10, None, ()), "others": (1000, None, ())}


def test_rules_with_an_allowance_need_not_be_asked_while_it_lasts() -> None:
    rules = RuleSet(
        [
            Rename(name="rename", match=Match(exchange="a", method="basic.publish"), to="b"),
            Draw(name="draw", match=Match(exchange="b"), tickets=3),
            Draw(name="draw again", mode="shadow", tickets=9),
            Allow(name="allow"),
        ]
    )
    evaluator = rules.evaluator(GUEST)
    frame = command(BasicPublish(exchange="a")).frames[0]
    spared = evaluator.passing(CLIENT, frame, ChannelInfo(), 0.0)
    assert spared is not None
    assert spared.method == BasicPublish(exchange="b")
    assert [each.left for each in spared.allowances] == [3, 9]
    spared.count(2)
    assert {name: each.hits for name, each in rules.counts().items()} == {
        "rename": 2,
        "draw": 0,
        "draw again": 0,
        "allow": 2,
    }
    assert evaluator.stage(CLIENT, frame, ChannelInfo()) is Stage.METHOD, "who asks is answered"
    evaluated(evaluator, command(BasicPublish(exchange="a")))
    assert [each.left for each in spared.allowances] == [2, 8]


def test_what_else_must_be_asked_gives_no_allowance() -> None:
    draw = Draw(name="draw", tickets=3)
    publish = command(BasicPublish(exchange="a")).frames[0]
    others: list[Rule] = [
        RenameNow(name="now", match=Match(exchange="a", method="basic.publish"), to="b"),
        Draw(name="by size", match=Match(size=Sizes(max=1)), tickets=3),
        Deny(name="deny"),
    ]
    for other in others:
        for order in ([draw, other], [other, draw]):
            evaluator = RuleSet(order).evaluator(GUEST)
            for _ in range(2):
                assert evaluator.passing(CLIENT, publish, ChannelInfo(), 0.0) is None


def test_a_new_name_brings_in_the_rules_that_name_it() -> None:
    """Also those that were not looked at for the old one."""
    rename = Rename(name="rename", match=Match(exchange="old", method="basic.publish"), to="new")
    for first in (rename, RenameNow(name="rename", match=rename.match, to="new")):
        evaluator = RuleSet([first, Deny(name="deny", match=Match(exchange="new"))]).evaluator(GUEST)
        for _ in range(2):
            assert evaluated(evaluator, command(BasicPublish(exchange="old"))).command is None
