"""Who is asked, in which order, and what it comes to."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicConsume, BasicDeliver, BasicPublish, QueueDeclare
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.decision_cache import MAX_OCTETS
from amqproxy.rules.engine.evaluator import MAX_KNOWN, RuleSet
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import Cacheable, ImpairsStream, Rule, RuleState, SessionMemory, Stateful
from amqproxy.rules.verdict import Close, Impairment, Stage, Verdict
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Deny, EverySecond, Raising, Rename, RenameNow
from tests.rules.scene import from_client, rule

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


def test_without_rules_nothing_is_wanted() -> None:
    evaluator = RuleSet(()).evaluator(GUEST)
    assert not any(evaluator.wants(CLIENT))
    assert not any(evaluator.wants(SERVER))
    assert not evaluator.wants_all(CLIENT)
    sent = command(BasicPublish(exchange="a"))
    assert evaluator.stage(CLIENT, sent.frames[0], ChannelInfo()) is Stage.NOTHING


def test_the_first_final_word_is_the_last() -> None:
    rules = RuleSet([Allow(name="ours", match=Match(exchange="orders")), Deny(name="rest", match=Match(method="*"))])
    evaluator = rules.evaluator(GUEST)
    sent = command(BasicPublish(exchange="orders"))
    assert evaluated(evaluator, sent).command is sent
    refused = evaluated(evaluator, command(BasicPublish(exchange="other")))
    assert refused.close == Close(Scope.CHANNEL, 403, "rest")
    assert refused.marks == ("rest",)
    assert {name: counts.hits for name, counts in rules.counts().items()} == {"ours": 1, "rest": 1}


def test_a_later_rule_sees_what_the_one_before_left() -> None:
    evaluator = RuleSet(
        [
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
            Deny(name="deny", match=Match(exchange="new")),
        ]
    ).evaluator(GUEST)
    assert evaluated(evaluator, command(BasicPublish(exchange="old"))).command is None
    assert evaluated(evaluator, command(BasicPublish(exchange="new"))).command is None
    assert evaluated(evaluator, command(BasicPublish(exchange="else"))).command is not None


def test_what_the_server_says_has_the_names_that_the_client_knows() -> None:
    evaluator = RuleSet(
        [
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
            Deny(name="deny", match=Match(sender="server", exchange="new")),
        ]
    ).evaluator(GUEST)
    verdict = evaluated(evaluator, command(BasicDeliver(consumer_tag="c", exchange="new")), SERVER)
    assert verdict.command is not None
    assert verdict.command.method.exchange == "old"


def test_shadow_counts_and_changes_nothing() -> None:
    rules = RuleSet([Deny(name="deny", mode="shadow"), Rename(name="rename", mode="shadow", to="new")])
    sent = command(BasicPublish(exchange="old"))
    verdict = evaluated(rules.evaluator(GUEST), sent)
    assert verdict.command is sent
    assert verdict.marks == ("deny (shadow)", "rename (shadow)")
    assert [counts.shadow_hits for counts in rules.counts().values()] == [1, 1]
    assert [counts.hits for counts in rules.counts().values()] == [0, 0]


def test_a_rule_that_raises_refuses() -> None:
    rules = RuleSet([Raising(name="odd")])
    evaluator = rules.evaluator(GUEST)
    verdict = evaluated(evaluator, command(QueueDeclare(queue="q")))
    assert verdict.command is None
    assert verdict.close == Close(Scope.CHANNEL, 541, "INTERNAL_ERROR - rule 'odd' failed")
    assert rules.counts()["odd"].errors == 1


def test_a_rule_about_a_user_waits_until_the_user_is_known() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(user="guest", method="basic.consume"))]).evaluator(Client())
    assert not any(evaluator.wants(CLIENT))
    evaluator.know(GUEST)
    assert evaluator.wants(CLIENT)[BasicConsume.index]
    assert evaluated(evaluator, command(BasicConsume(queue="q"))).command is None


def test_what_was_found_out_once_is_told_with_the_tag_of_each_delivery() -> None:
    evaluator = RuleSet(
        [Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new")]
    ).evaluator(GUEST)
    for tag in (1, 2):
        sent = command(BasicDeliver(consumer_tag="c", delivery_tag=tag, exchange="new"), channel=tag)
        verdict = evaluated(evaluator, sent, SERVER)
        assert verdict.command is not None
        assert verdict.command.method == BasicDeliver(consumer_tag="c", delivery_tag=tag, exchange="old")
        assert verdict.command.channel == tag


def test_a_new_name_brings_in_the_rules_that_name_it() -> None:
    """Also those that were not looked at for the old one."""
    rename = Rename(name="rename", match=Match(exchange="old", method="basic.publish"), to="new")
    for first in (rename, RenameNow(name="rename", match=rename.match, to="new")):
        evaluator = RuleSet([first, Deny(name="deny", match=Match(exchange="new"))]).evaluator(GUEST)
        for _ in range(2):
            assert evaluated(evaluator, command(BasicPublish(exchange="old"))).command is None


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


def test_it_remembers_so_many_methods_and_no_more() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(exchange="b"))]).evaluator(GUEST)
    for number in range(3 * MAX_KNOWN):
        evaluator.stage(CLIENT, command(BasicPublish(exchange="a", routing_key=f"{number}")).frames[0], ChannelInfo())
    assert len(evaluator._known[CLIENT]) <= MAX_KNOWN
    long = command(QueueDeclare(queue="q", arguments=Table({"x": "y" * 2 * MAX_OCTETS})))
    RuleSet([Deny(name="deny", match=Match(queue="b"))]).evaluator(GUEST).stage(CLIENT, long.frames[0], ChannelInfo())
    assert len(evaluator._known[CLIENT]) <= MAX_KNOWN


def test_only_as_much_is_waited_for_as_some_rule_needs() -> None:
    evaluator = RuleSet(
        [
            Allow(name="small", match=Match(exchange="a", size=Sizes(max=10))),
            Deny(name="secret", match=Match(exchange="b", body="*secret*")),
            Deny(name="c", match=Match(exchange="c")),
        ]
    ).evaluator(GUEST)
    facts = ChannelInfo()
    expected = {"a": Stage.HEADER, "b": Stage.BODY, "c": Stage.METHOD, "d": Stage.NOTHING}
    for exchange, stage in expected.items():
        assert evaluator.stage(CLIENT, command(BasicPublish(exchange=exchange)).frames[0], facts) is stage
    assert evaluated(evaluator, command(BasicPublish(exchange="b"), body=b"a secret")).command is None
    assert evaluated(evaluator, command(BasicPublish(exchange="b"), body=b"none")).command is not None


def test_a_heartbeat_is_shown_to_those_who_ask_for_it() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(method="heartbeat", sender="server"))]).evaluator(GUEST)
    assert evaluator.wants_all(SERVER)
    assert not evaluator.wants_all(CLIENT)
    heartbeat = Command.received([Frame(HEARTBEAT_FRAME)])
    assert evaluated(evaluator, heartbeat, SERVER).command is None
    assert evaluator.stage(CLIENT, heartbeat.frames[0], ChannelInfo()) is Stage.NOTHING


def test_a_malformed_method_is_its_senders_fault() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(exchange="a"))]).evaluator(GUEST)
    frame = Frame(encode_frame(1, 1, encode_method(1, BasicPublish(exchange="a"))[7:-3]))
    with pytest.raises(ProtocolError):
        evaluator.stage(CLIENT, frame, ChannelInfo())


def test_a_reload_keeps_what_is_remembered_and_counted() -> None:
    every = EverySecond(name="every")
    before = RuleSet([every, Deny(name="gone", match=Match(exchange="gone"))])
    evaluator = before.evaluator(GUEST)
    sent = command(BasicPublish(exchange="a"))
    assert evaluated(evaluator, sent).command is sent
    after = before.replaced([Allow(name="new", match=Match(exchange="b")), every])
    evaluator = evaluator.moved(after)
    assert evaluated(evaluator, sent).command is None, "it is the second time"
    assert after.counts()["every"].hits == 1
    assert evaluated(evaluator, command(BasicPublish(exchange="gone"))).command is not None


def test_names_still_come_back_when_the_rule_that_changed_them_is_gone() -> None:
    rename = Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new")
    evaluator = RuleSet([rename]).evaluator(GUEST)
    evaluated(evaluator, command(BasicPublish(exchange="old")))
    evaluator = evaluator.moved(evaluator.ruleset.replaced([]))
    verdict = evaluated(evaluator, command(BasicDeliver(exchange="new")), SERVER)
    assert verdict.command is not None
    assert verdict.command.method.exchange == "old"
    assert evaluated(evaluator, command(BasicPublish(exchange="old"))).command is not None


class RecordingMemory(SessionMemory):
    """Records in `calls` what ends."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def channel_closed(self, number: int) -> None:
        self.calls.append(f"closed {number}")

    def session_over(self) -> None:
        self.calls.append("over")


class Recording(Rule, Stateful, ImpairsStream, frozen=True, tag="recording"):
    """Records in `calls` what begins and ends."""

    calls: list[str]

    def begin_session(self) -> RecordingMemory:
        return RecordingMemory(self.calls)

    def start(self, client: Client, memory: RuleState, now: float, random: Any) -> tuple[Impairment, ...]:
        self.calls.append(f"start {client.user}")
        return (Impairment(to=CLIENT),)


@pytest.mark.parametrize(("match", "first_call"), [(Match(), "start "), (Match(user="guest"), "start guest")])
def test_rules_on_connections_start_as_soon_as_their_match_is_known(match: Match, first_call: str) -> None:
    calls: list[str] = []
    rules = RuleSet([Recording(name="recording", match=match, calls=calls)])
    evaluator = rules.evaluator(Client())
    now: dict[str, Any] = {"now": 0.0, "time": 0.0, "random": lambda: 0.0}
    first = evaluator.start(**now)
    evaluator.know(GUEST)
    assert len(first) + len(evaluator.start(**now, is_open=True)) == 1
    assert evaluator.start(**now, is_open=True) == ()
    evaluator.channel_closed(3)
    evaluator.session_over()
    assert calls == [first_call, "closed 3", "over"]
    assert not any(evaluator.wants(CLIENT)), "it decides about no commands"
    assert rules.counts()["recording"].hits == 1


def test_two_hundred_rules_are_no_more_work_than_twenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """When they are about other methods, other exchanges or other users, even where no two publishes are alike."""
    looked_at = []
    holds_of_method = CompiledRule.holds_of_method

    def spied(case: CompiledRule, context: CommandContext) -> bool:
        looked_at.append(case)
        return holds_of_method(case, context)

    monkeypatch.setattr(CompiledRule, "holds_of_method", spied)
    work = {}
    for count in (20, 200):
        kinds = [{"exchange": "x{}"}, {"exchange": "x{}.*"}, {"method": "queue.declare"}, {"user": "u{}"}]
        matches = [
            {key: value.format(number) for key, value in kinds[number % len(kinds)].items()} for number in range(count)
        ]
        rules = [Deny(name=f"{number}", match=msgspec.convert(match, Match)) for number, match in enumerate(matches)]
        evaluator = RuleSet([*rules, Allow(name="orders", match=Match(exchange="orders"))]).evaluator(GUEST)
        looked_at.clear()
        for number in range(100):
            frame = command(BasicPublish(exchange="orders", routing_key=f"{number}")).frames[0]
            assert evaluator.stage(CLIENT, frame, ChannelInfo()) is Stage.NOTHING
        work[count] = len(looked_at)
    assert work[200] == work[20] == 100


def test_what_is_remembered_of_a_method_does_not_hold_its_frame() -> None:
    """A frame may lie in all that was read at a time."""
    evaluator = RuleSet([Deny(name="deny", match=Match(exchange="a"), mode="shadow")]).evaluator(GUEST)
    sent = command(BasicPublish(exchange="a"))
    frame = sent.frames[0]
    before = sys.getrefcount(frame)
    evaluated(evaluator, sent)
    assert sys.getrefcount(frame) == before


def test_a_delivery_that_is_cut_off_is_its_senders_fault() -> None:
    evaluator = RuleSet([EverySecond(name="count", match=Match(method="basic.deliver"))]).evaluator(GUEST)
    payload = BasicDeliver("tag", 1, False, "a", "b").encode()
    for size in range(4, len(payload)):
        frame = Frame(encode_frame(METHOD, 1, payload[:size]))
        with pytest.raises(ProtocolError) as raised:
            evaluator.stage(SERVER, frame, ChannelInfo(number=1))
        assert raised.value.code in (501, 502)


class RaisingOpen(Raising, frozen=True, tag="raising-open"):
    fails_open = True


def test_a_rule_that_only_looks_fails_open() -> None:
    rules = RuleSet([RaisingOpen(name="look"), Rename(name="rename", to="b")])
    sent = command(BasicPublish(exchange="a"))
    verdict = evaluated(rules.evaluator(GUEST), sent)
    assert verdict.close is None
    assert verdict.command is not None
    assert verdict.command.method.exchange == "b"
    assert rules.counts()["look"].errors == 1
    [(name, how)] = verdict.failures
    assert name == "look"
    assert how.startswith("rule 'look' failed: KeyError in sample_rules.py, line ")


def test_an_expression_that_fails_on_what_the_client_says_refuses_its_commands() -> None:
    rules = RuleSet([Allow(name="odd", when="client.properties.product > 3"), Rename(name="rename", to="b")])
    evaluator = rules.evaluator(GUEST)
    for _ in range(2):
        verdict = evaluated(evaluator, command(BasicPublish(exchange="a")))
        assert verdict.close is not None
        assert verdict.close.code == 541
    assert rules.counts()["odd"].errors == 2
    evaluator.know(msgspec.structs.replace(GUEST, properties={"product": 4}))
    assert evaluated(evaluator, command(BasicPublish(exchange="a"))).close is None


class Careless(Rule, frozen=True, tag="careless"):
    makes_unchecked_values = True

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command.altered(BasicPublish(exchange="x" * 256)))


def test_what_cannot_be_sent_is_a_failure() -> None:
    rules = RuleSet([Careless(name="careless")])
    verdict = evaluated(rules.evaluator(GUEST), command(BasicPublish()))
    assert verdict.close is not None
    assert verdict.close.code == 541
    assert rules.counts()["careless"].errors == 1


class ClumsyMemory(SessionMemory):
    def channel_closed(self, number: int) -> None:
        raise LookupError

    def session_over(self) -> None:
        raise LookupError


class Clumsy(Rule, Stateful, frozen=True, tag="clumsy"):
    def begin_session(self) -> ClumsyMemory:
        return ClumsyMemory()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command)


def test_a_rule_that_fails_as_something_ends_is_counted() -> None:
    rules = RuleSet([Clumsy(name="clumsy"), EverySecond(name="count")])
    evaluator = rules.evaluator(GUEST)
    evaluated(evaluator, command(BasicPublish()))
    evaluator.channel_closed(1)
    evaluator.session_over()
    assert rules.counts()["clumsy"].errors == 2


@pytest.mark.parametrize(
    "text",
    [
        'action = "refuse"\nwhen = "body.contains(\'a\')"',
        'action = "refuse"\nwhen = "json.a == 1"',
        'action = "rewrite"\nbody.json_patch = [{op = "add", path = "/b", value = 1}]',
        'action = "rewrite"\nheaders.set = {x = "{body}"}',
    ],
)
def test_a_body_too_large_to_be_looked_into_is_refused_as_rabbitmq_refuses_large_ones(text: str) -> None:
    evaluator = RuleSet([rule(text)]).evaluator(GUEST)
    small = from_client(BasicPublish(exchange="e"), body=b"{}", body_limit=10)
    assert evaluator.evaluate(small).close is None
    verdict = evaluator.evaluate(from_client(BasicPublish(exchange="e"), body=b'{"a": 12345}', body_limit=10))
    assert verdict.close is not None
    assert (verdict.close.code, verdict.close.scope) == (406, Scope.CHANNEL)
    assert (
        verdict.close.text == "PRECONDITION_FAILED - message size 12 is larger than the 10 bytes that rules look into"
    )


def test_a_rule_that_does_not_look_into_a_body_does_not_mind_its_size() -> None:
    evaluator = RuleSet([rule('action = "refuse"\nwhen = "size > 100 && body.contains(\'a\')"')]).evaluator(GUEST)
    hold = RuleSet([rule('action = "hold"')]).evaluator(GUEST)
    context = from_client(BasicPublish(exchange="e"), body=b"12 bytes now", body_limit=10)
    assert hold.evaluate(context).hold is not None
    assert evaluator.evaluate(context).close is not None  # an expression reads all that it names


def test_a_rule_with_a_long_name_fails_in_as_much_as_a_reply_text_holds() -> None:
    verdict = evaluated(RuleSet([Raising(name="é" * 300)]).evaluator(GUEST), command(BasicPublish()))
    assert verdict.close is not None
    assert verdict.close.text.startswith("INTERNAL_ERROR - rule 'é")
    assert len(verdict.close.text.encode()) <= 255
