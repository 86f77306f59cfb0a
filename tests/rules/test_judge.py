"""Who is asked, in which order, and what it comes to."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frames import HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.grammar import CLIENT, SERVER, Peer
from amqproxy.amqp091.methods import BasicConsume, BasicDeliver, BasicPublish, Method, QueueDeclare
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.rules.allow import Allow
from amqproxy.rules.judge import Judge, RuleSet
from amqproxy.rules.match import Match
from amqproxy.rules.rule import Memory, Rule
from amqproxy.rules.seen import ChannelFacts, Client, Seen
from amqproxy.rules.verdict import Close, Stage, Verdict

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


class Deny(Rule, frozen=True, tag="deny"):
    is_constant = True

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        return Verdict(command=None, close=Close(Scope.CHANNEL, 403, self.name), is_final=True)


class Rename(Rule, frozen=True, tag="rename"):
    """Gives exchange another name, and the other way round what is delivered."""

    to: str

    is_constant = True

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        method = seen.command.method
        changed = type(method)(**{f: getattr(method, f) for f in method.__struct_fields__} | {"exchange": self.to})
        return Verdict(command=seen.command.altered(method=changed))

    def restores(self, sender: Peer) -> frozenset[str]:
        return frozenset({"basic.deliver"}) if sender is SERVER else frozenset()

    def restore(self, seen: Seen, memory: Memory) -> Verdict:
        method = seen.command.method
        if method.exchange != self.to:
            return Verdict(command=seen.command)
        fields = {f: getattr(method, f) for f in method.__struct_fields__}
        return Verdict(command=seen.command.altered(method=BasicDeliver(**fields | {"exchange": self.match.exchange})))


class Raising(Rule, frozen=True, tag="raising"):
    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        raise KeyError("no such thing")


def command(method: Method, channel: int = 1, properties: Properties | None = None, body: bytes = b"") -> Command:
    """The command as it was received, whole."""
    frames = [Frame(encode_method(channel, method))]
    if method.carries_content:
        header = ContentHeader(len(body), properties or Properties())
        frames.append(Frame(encode_frame(HEADER, channel, header.encode())))
        if body:
            frames.append(Frame(encode_frame(3, channel, body)))
    return Command.received(frames)


def judged(judge: Judge, said: Command, sender: Peer = CLIENT, **more: Any) -> Verdict:
    """The verdict on a command, staged as a session does it; what passes at once has the plainest."""
    stage = judge.stage(sender, said.frames[0], ChannelFacts(number=said.channel))
    if stage is Stage.NOTHING:
        return Verdict(command=said)
    return judge.judge(Seen(sender=sender, command=said, client=judge.client, **more))


def test_without_rules_nothing_is_wanted() -> None:
    judge = RuleSet(()).judge(GUEST)
    assert not any(judge.wants(CLIENT))
    assert not any(judge.wants(SERVER))
    assert not judge.wants_all(CLIENT)
    said = command(BasicPublish(exchange="a"))
    assert judge.stage(CLIENT, said.frames[0], ChannelFacts()) is Stage.NOTHING


def test_the_first_final_word_is_the_last() -> None:
    rules = RuleSet([Allow(name="ours", match=Match(exchange="orders")), Deny(name="rest", match=Match(method="*"))])
    judge = rules.judge(GUEST)
    said = command(BasicPublish(exchange="orders"))
    assert judged(judge, said).command is said
    refused = judged(judge, command(BasicPublish(exchange="other")))
    assert refused.close == Close(Scope.CHANNEL, 403, "rest")
    assert refused.marks == ("rest",)
    assert {name: counts.hits for name, counts in rules.counts().items()} == {"ours": 1, "rest": 1}


def test_a_later_rule_sees_what_the_one_before_left() -> None:
    judge = RuleSet(
        [
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
            Deny(name="deny", match=Match(exchange="new")),
        ]
    ).judge(GUEST)
    assert judged(judge, command(BasicPublish(exchange="old"))).command is None
    assert judged(judge, command(BasicPublish(exchange="new"))).command is None
    assert judged(judge, command(BasicPublish(exchange="else"))).command is not None


def test_what_the_server_says_has_the_names_that_the_client_knows() -> None:
    judge = RuleSet(
        [
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
            Deny(name="deny", match=Match(sender="server", exchange="new")),
        ]
    ).judge(GUEST)
    verdict = judged(judge, command(BasicDeliver(consumer_tag="c", exchange="new")), SERVER)
    assert verdict.command is not None
    assert verdict.command.method.exchange == "old"


def test_shadow_counts_and_changes_nothing() -> None:
    rules = RuleSet([Deny(name="deny", mode="shadow"), Rename(name="rename", mode="shadow", to="new")])
    said = command(BasicPublish(exchange="old"))
    verdict = judged(rules.judge(GUEST), said)
    assert verdict.command is said
    assert verdict.marks == ("deny (shadow)", "rename (shadow)")
    assert [counts.shadow_hits for counts in rules.counts().values()] == [1, 1]
    assert [counts.hits for counts in rules.counts().values()] == [0, 0]


def test_a_rule_that_raises_refuses() -> None:
    rules = RuleSet([Raising(name="odd")])
    judge = rules.judge(GUEST)
    verdict = judged(judge, command(QueueDeclare(queue="q")))
    assert verdict.command is None
    assert verdict.close == Close(Scope.CHANNEL, 541, "INTERNAL_ERROR - rule 'odd' failed")
    assert rules.counts()["odd"].errors == 1


def test_a_rule_about_a_user_waits_until_the_user_is_known() -> None:
    judge = RuleSet([Deny(name="deny", match=Match(user="guest", method="basic.consume"))]).judge(Client())
    assert not any(judge.wants(CLIENT))
    judge.know(GUEST)
    assert judge.wants(CLIENT)[BasicConsume.index]
    assert judged(judge, command(BasicConsume(queue="q"))).command is None
