"""The evaluator decides as one that remembers nothing and looks at everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    ExchangeBind,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.access.acl import AccessList, parts_of
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleEvaluator, RuleSet
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.rule import Cacheable, Reversible, Rule, RuleState, initial_state
from amqproxy.rules.verdict import Stage, Verdict
from tests.example_count import example_count
from tests.rules.commands import command
from tests.rules.sample_rules import Deny, EverySecond, Raising, Rename, RenameNow

pytestmark = pytest.mark.slow

NAMES = ["a", "a.b", "c"]
CLIENTS = [
    Client(),
    Client(user="guest", address="10.0.0.1"),
    Client(user="guest", vhost="/", address="10.0.0.1", properties={"product": "pika"}),
    Client(user="admin", vhost="prod", address="::1"),
]


class Mark(Rule, Cacheable, frozen=True, tag="mark"):
    changes_method = False

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command, marks=("context",), logged=(("info", context.command.method.name),))


class Label(Rule, Cacheable, frozen=True, tag="label"):
    """Puts a header into messages."""

    methods = frozenset({"basic.publish", "basic.deliver"})
    needs = Stage.HEADER
    changes_method = False

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        properties = msgspec.structs.replace(context.command.properties, headers=Table({"label": self.name}))
        return Verdict(command=context.command.altered(properties=properties))


patterns = st.sampled_from(["a", "c", "c", "a*", "!a", "*", "is:a.b", "topic:a.#", "regex:[ab]"])
matches = st.builds(
    Match,
    sender=st.sampled_from([None, None, "client", "server"]),
    method=st.sampled_from([None, "basic.*", "basic.publish", ("basic.deliver", "queue.*")]),
    exchange=st.one_of(st.none(), patterns, st.just(("a", "c"))),
    queue=st.one_of(st.none(), st.none(), patterns),
    user=st.sampled_from([None, None, "guest", "!guest"]),
    address=st.sampled_from([None, None, "10.0.0.0/8"]),
    size=st.sampled_from([None, None, Sizes(min=1), Sizes(max=0)]),
    headers=st.sampled_from([{}, {}, {"label": True}, {"n": 1}]),
    body=st.sampled_from([None, None, None, "x*"]),
    sample=st.sampled_from([None, None, 50.0]),
)
expressions = st.sampled_from(
    ["", "", "", "exchange == 'a'", "routing_key.startsWith('a') || size > 0", "user == 'guest'", "headers.n > 0"]
)


def rules_of(kind: type[Rule], **more: Any) -> st.SearchStrategy[Rule]:
    modes = st.sampled_from(["enforce", "enforce", "shadow"])
    return st.builds(kind, name=st.just(""), match=matches, when=expressions, mode=modes, **more)


lists = st.lists(
    st.sampled_from(
        [
            'allow anyone to publish exchange "a"',
            'deny anyone to publish exchange "c"',
            'allow user "guest" to any',
            'allow anyone to bind exchange "a*"',
            'deny anyone to declare, consume queue "a"',
            'deny address "10.0.0.0/8" to publish routing_key "a*"',
            'deny anyone to publish queue "a"',
        ]
    ),
    min_size=1,
    max_size=4,
).flatmap(lambda lines: st.sampled_from(["", "; otherwise deny"]).map(lambda end: "\n".join(lines) + end))

renamings = Match(method="basic.publish", exchange="a")
rules = st.lists(
    st.one_of(
        rules_of(Allow),
        rules_of(Deny),
        rules_of(Mark),
        rules_of(EverySecond),
        rules_of(Raising),
        rules_of(Label),
        rules_of(AccessList, lines=lists),
        *[st.builds(kind, name=st.just(""), match=st.just(renamings), to=st.just("c")) for kind in (Rename, RenameNow)],
    ),
    max_size=6,
).map(lambda several: [msgspec.structs.replace(rule, name=f"r{place}") for place, rule in enumerate(several)])

names = st.sampled_from(NAMES)
tags = st.integers(0, 3)
methods: st.SearchStrategy[Method] = st.one_of(
    st.builds(BasicPublish, exchange=names),
    st.builds(BasicDeliver, delivery_tag=tags, exchange=names),
    st.builds(BasicPublish, exchange=names, routing_key=names),
    st.builds(BasicDeliver, consumer_tag=names, delivery_tag=tags, exchange=names, routing_key=names),
    st.builds(BasicAck, delivery_tag=tags),
    st.builds(QueueDeclare, queue=names),
    st.builds(BasicConsume, queue=names),
    st.builds(ExchangeBind, source=names, destination=names),
)
properties = st.sampled_from([Properties(), Properties(headers=Table({"n": 1})), Properties(headers=Table({"n": "x"}))])
properties |= st.sampled_from([Properties(headers=Table({"CC": ["a", "c"]})), Properties(reply_to="a")])
commands = st.builds(command, methods, st.sampled_from([1, 2]), properties, st.sampled_from([b"", b"x", b"xy"]))


class Plain:
    """Judges by asking each rule about everything, each time."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.memories = {rule.name: initial_state(rule) for rule in rules}
        self.counts = {rule.name: [0, 0, 0] for rule in rules}

    def holds(self, rule: Rule, part: Rule, context: CommandContext) -> bool:
        for each in {rule.name: rule, part.name: part}.values():
            methods = each.matched if each.methods is None else each.matched & each.methods
            if context.command.method.name not in methods or not all(c.holds(context) for c in each.conditions()):
                return False
        return not rule.when or compiled(rule.when).condition.holds(context)  # asked last: it alone can raise

    def evaluate(self, context: CommandContext) -> tuple[Any, ...]:
        sent = context.command
        if context.sender is SERVER:
            context = self.restored(context)
        marks: list[str] = []
        for rule in self.rules:
            for part in parts_of(rule):
                is_whole = part is rule
                try:
                    if not self.holds(rule, part, context):
                        continue
                    verdict = part.decide(context, self.memories[rule.name])
                except Exception:  # noqa: BLE001 - as the evaluator itself
                    self.counts[rule.name][2] += 1
                    if rule.mode == "shadow":
                        continue
                    return None, ("541", part.name), (*marks, part.name)
                does_act = verdict.command is not context.command or bool(verdict.close or verdict.marks)
                if not does_act and not verdict.is_final:
                    continue
                if rule.mode == "shadow":
                    self.counts[rule.name][1] += 1
                    marks += [f"{part.name} (shadow)"] if does_act else []
                    break
                self.counts[rule.name][0] += 1
                marks += [*verdict.marks, *([part.name] if does_act else [])]
                if verdict.command is None:
                    return None, verdict.close, tuple(marks)
                context = msgspec.structs.replace(context, command=verdict.command)
                if verdict.is_final and is_whole:
                    return self.ended(sent, context, marks)
                break
        return self.ended(sent, context, marks)

    def ended(self, sent: Command, context: CommandContext, marks: list[str]) -> tuple[Any, ...]:
        if context.sender is CLIENT:
            context = self.restored(context)
        return ("untouched" if context.command is sent else content(context.command)), None, tuple(marks)

    def restored(self, context: CommandContext) -> CommandContext:
        for rule in reversed(self.rules):
            if not isinstance(rule, Reversible) or rule.mode != "enforce":
                continue
            if context.command.method.name in rule.restores(context.sender):
                restored = rule.restore(context, self.memories[rule.name])
                context = msgspec.structs.replace(context, command=restored.command)
        return context


def content(command: Command) -> tuple[Any, ...]:
    return command.channel, command.method, command.properties, command.body


def outcome(evaluator: RuleEvaluator, context: CommandContext) -> tuple[Any, ...]:
    """The verdict, had as a session has it: with no more of the command than was asked for."""
    frames = context.command.frames
    stage = evaluator.stage(context.sender, frames[0], context.channel)
    if stage is Stage.NOTHING:
        return "untouched", None, ()
    enough = {Stage.METHOD: 1, Stage.HEADER: 2, Stage.BODY: len(frames)}[stage]
    growing = frames[:enough]
    sent = Command.received(growing)
    verdict = evaluator.evaluate(msgspec.structs.replace(context, command=sent))
    growing += frames[enough:]
    close: Any = verdict.close
    if close is not None and close.code == 541:
        close = ("541", verdict.marks[-1])
    if verdict.command is None:
        return None, close, verdict.marks
    return ("untouched" if verdict.command is sent else content(verdict.command)), close, verdict.marks


def drawing(numbers: list[float]) -> Callable[[], float]:
    rest = iter(numbers)
    return lambda: next(rest, 0.75)


@settings(max_examples=example_count(300), deadline=None)
@given(
    rules,
    st.lists(
        st.one_of(
            st.sampled_from(CLIENTS),
            st.tuples(commands, st.sampled_from([0.25, 0.75])),
        ),
        min_size=12,
        max_size=25,
    ),
)
def test_it_decides_as_one_who_remembers_nothing(rules: list[Rule], sent: list[Any]) -> None:
    plain = Plain(rules)
    ruleset = RuleSet(rules)
    evaluator = ruleset.evaluator(Client())
    for each in sent:
        if isinstance(each, Client):
            evaluator.know(each)
            continue
        command, chance = each
        sender: Peer = SERVER if command.method.name == "basic.deliver" else CLIENT
        assert sender in SENDERS[command.method.name]
        facts = ChannelInfo(number=command.channel)
        context = CommandContext(
            sender=sender,
            command=command,
            client=evaluator.client,
            channel=facts,
            random=lambda: chance,  # noqa: B023
        )
        assert outcome(evaluator, context) == plain.evaluate(context)
        if not evaluator.wants(sender)[command.index]:
            assert evaluator.stage(sender, command.frames[0], facts) is Stage.NOTHING
    counted = {name: [each.hits, each.shadow_hits, each.errors] for name, each in ruleset.counts().items()}
    assert counted == plain.counts
