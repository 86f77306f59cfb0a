"""Whatever is decided about whatever is said, neither peer ever gets what it may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    ConnectionBlocked,
)
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.engine.decision_cache import CachedDecision, CachedPasses
from amqproxy.rules.verdict import Answer, Close, Insertion, Stage, Verdict
from tests.example_count import example_count
from tests.proxy.interceptor_transcript import ScriptedEvaluator, opened
from tests.proxy.party import Party

pytestmark = pytest.mark.slow

EVALUATED = [
    "basic.publish",
    "basic.deliver",
    "basic.get-ok",
    "basic.ack",
    "basic.nack",
    "queue.declare",
    "basic.consume",
    "channel.open",
]


def verdicts(data: st.DataObject, may_drop_confirms: Callable[[], bool]):
    """A function that decides as drawn, and only what can be decided."""

    def decide(context):
        command = context.command
        method = command.method
        choices = ["pass", "pass", "close", "delay", "alter"]
        if isinstance(method, BasicPublish):
            choices += ["nothing", "ack", "nack", "return", "own publish", "blocked", "grow"]
        elif isinstance(method, BasicDeliver):
            choices += ["nothing", "ack", "reject", "requeue", "copy", "behind", "cancel", "copy"]
        elif method.name == "basic.get-ok":
            choices += ["nothing", "ack", "reject"]
        elif isinstance(method, (BasicAck, BasicNack)):
            choices += ["nothing"] if context.sender is CLIENT or may_drop_confirms() else []
        choice = data.draw(st.sampled_from(choices), label=f"verdict on {method.name}")
        own = Command(command.channel, BasicPublish(routing_key="own"), body=b"own")
        match choice:
            case "close":
                return Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no"))
            case "delay":
                return Verdict(command=command, delay=data.draw(st.sampled_from([0.5, 2.0])))
            case "alter" if isinstance(method, (BasicPublish, BasicDeliver)):
                return Verdict(command=command.altered(method=replace(method, routing_key="other")))
            case "grow":
                return Verdict(command=command.altered(body=b"grown" * 3))
            case "own publish":
                is_ahead = data.draw(st.booleans())
                return Verdict(command=command, insertions=(Insertion(SERVER, own, is_ahead=is_ahead),))
            case "blocked":
                blocked = Command(0, ConnectionBlocked("so"))
                return Verdict(command=command, insertions=(Insertion(CLIENT, blocked),))
            case "copy":
                copy = Command(command.channel, replace(method, redelivered=True), body=command.body)
                return Verdict(command=command, insertions=(Insertion(CLIENT, copy),))
            case "behind":
                return Verdict(command=command, behind=data.draw(st.integers(1, 2)))
            case "cancel":
                cancel = Command(command.channel, BasicCancel(method.consumer_tag, False))
                return Verdict(command=command, insertions=(Insertion(SERVER, cancel),))
            case "pass" | "alter":
                return Verdict(command=command)
            case answer:
                return Verdict(command=None, answer=Answer(answer))

    return decide


class Sparing(ScriptedEvaluator):
    """Has some methods go on from now on without being evaluated, as drawn: for some time, or for good."""

    data: st.DataObject

    def spare(self, frame: Frame) -> CachedPasses | None:
        method = frame.method
        spared = self.data.draw(st.sampled_from(["no", "passes", "changes"]), label="from now on")
        if spared == "no":
            return None
        tokens = self.data.draw(st.none() | st.integers(0, 5), label="so many of them")
        instead = replace(method, routing_key="another, and longer") if spared == "changes" else None
        known = CachedDecision(Command(0, method), Verdict(command=Command(0, instead or method)), Stage.METHOD)
        known.method = instead
        return CachedPasses(known, () if tokens is None else (Credit(tokens),))


@settings(max_examples=example_count(300), deadline=None)
@given(st.data())
def test_neither_peer_ever_gets_what_it_may_not(data):
    stage = data.draw(st.sampled_from([Stage.METHOD, Stage.HEADER, Stage.BODY]))
    evaluator = Sparing(verdicts(data, lambda: evaluator.drops_confirms), EVALUATED, stage)
    evaluator.data = data
    evaluator.drops_confirms = data.draw(st.booleans(), label="rules drop confirms")
    water = opened(evaluator)
    parties = [Party(peer, water, data) for peer in (CLIENT, SERVER)]
    for _ in range(data.draw(st.integers(0, 60))):
        party = data.draw(st.sampled_from([*parties, *parties, "time", "reload"]), label="who")
        if party == "time":
            water.wait(0.5)
            continue
        if party == "reload":
            evaluator.drops_confirms = data.draw(st.booleans(), label="rules drop confirms")
            water.interceptor.ask_for_frames()
            continue
        said = b""
        for _ in range(data.draw(st.integers(1, 6), label="so many frames at once")):
            words = party.next_words()
            if words is not None:
                water.note(party.peer, words)
                said += words
        water.carry(party.peer, said)  # which raises if anybody gets what it may not
    assert water.interceptor.refusal is None
    while water.interceptor.waiting:
        water.wait(2.0)
