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
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.decision_cache import MAX_KEY_SIZE
from amqproxy.rules.engine.evaluator import MAX_CACHED, RuleSet
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import ImpairsStream, Rule, RuleState, SessionMemory, Stateful
from amqproxy.rules.verdict import Close, Impairment, Stage
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Deny, EverySecond, Rename

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


def test_without_rules_nothing_is_wanted() -> None:
    evaluator = RuleSet(()).evaluator(GUEST)
    assert not any(evaluator.wants(CLIENT))
    assert not any(evaluator.wants(SERVER))
    assert not evaluator.wants_all(CLIENT)
    sent = command(BasicPublish(exchange="a"))
    assert evaluator.stage(CLIENT, sent.frames[0], ChannelInfo()) is Stage.NOTHING


def test_no_rule_is_asked_after_a_final_verdict() -> None:
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


def test_server_commands_have_the_names_that_the_client_knows() -> None:
    evaluator = RuleSet(
        [
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
            Deny(name="deny", match=Match(sender="server", exchange="new")),
        ]
    ).evaluator(GUEST)
    verdict = evaluated(evaluator, command(BasicDeliver(consumer_tag="c", exchange="new")), SERVER)
    assert verdict.command is not None
    assert verdict.command.method.exchange == "old"


def test_a_rule_about_a_user_waits_until_the_user_is_known() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(user="guest", method="basic.consume"))]).evaluator(Client())
    assert not any(evaluator.wants(CLIENT))
    evaluator.know(GUEST)
    assert evaluator.wants(CLIENT)[BasicConsume.index]
    assert evaluated(evaluator, command(BasicConsume(queue="q"))).command is None


def test_a_cached_decision_is_applied_with_the_tag_of_each_delivery() -> None:
    evaluator = RuleSet(
        [Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new")]
    ).evaluator(GUEST)
    for tag in (1, 2):
        sent = command(BasicDeliver(consumer_tag="c", delivery_tag=tag, exchange="new"), channel=tag)
        verdict = evaluated(evaluator, sent, SERVER)
        assert verdict.command is not None
        assert verdict.command.method == BasicDeliver(consumer_tag="c", delivery_tag=tag, exchange="old")
        assert verdict.command.channel == tag


def test_it_remembers_so_many_methods_and_no_more() -> None:
    evaluator = RuleSet([Deny(name="deny", match=Match(exchange="b"))]).evaluator(GUEST)
    for number in range(3 * MAX_CACHED):
        evaluator.stage(CLIENT, command(BasicPublish(exchange="a", routing_key=f"{number}")).frames[0], ChannelInfo())
    assert len(evaluator._cached[CLIENT]) <= MAX_CACHED
    long = command(QueueDeclare(queue="q", arguments=Table({"x": "y" * 2 * MAX_KEY_SIZE})))
    RuleSet([Deny(name="deny", match=Match(queue="b"))]).evaluator(GUEST).stage(CLIENT, long.frames[0], ChannelInfo())
    assert len(evaluator._cached[CLIENT]) <= MAX_CACHED


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
    method_conditions_hold = CompiledRule.method_conditions_hold

    def spied(case: CompiledRule, context: CommandContext) -> bool:
        looked_at.append(case)
        return method_conditions_hold(case, context)

    monkeypatch.setattr(CompiledRule, "method_conditions_hold", spied)
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


def test_an_expression_that_fails_on_client_data_refuses_its_commands() -> None:
    rules = RuleSet([Allow(name="odd", when="client.properties.product > 3"), Rename(name="rename", to="b")])
    evaluator = rules.evaluator(GUEST)
    for _ in range(2):
        verdict = evaluated(evaluator, command(BasicPublish(exchange="a")))
        assert verdict.close is not None
        assert verdict.close.code == 541
    assert rules.counts()["odd"].errors == 2
    evaluator.know(msgspec.structs.replace(GUEST, properties={"product": 4}))
    assert evaluated(evaluator, command(BasicPublish(exchange="a"))).close is None
