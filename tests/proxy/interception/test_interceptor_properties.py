"""Whatever is decided about whatever is said, neither peer ever gets what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, REPLIES, SERVER, ChannelState, Peer
from amqproxy.proxy.interception.session_rules import CachedPassing
from amqproxy.rules.engine.decision_cache import CachedDecision, CachedPasses
from amqproxy.rules.verdict import Answer, Close, Insertion, Stage, Verdict
from tests.proxy.interceptor_transcript import ScriptedEvaluator, Water, opened

pytestmark = pytest.mark.slow

EVALUATED = [
    "basic.publish",
    "basic.deliver",
    "basic.get-ok",
    "basic.ack",
    "queue.declare",
    "basic.consume",
    "channel.open",
]
REPLY = {request: replies[0] for request, replies in REPLIES.items()} | {"basic.get": "basic.get-ok"}


def verdicts(data: st.DataObject):
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
        elif isinstance(method, BasicAck):
            choices += ["nothing"]
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

    def spare(self, frame: Frame) -> CachedPassing | None:
        method = frame.method
        spared = self.data.draw(st.sampled_from(["no", "passes", "changes"]), label="from now on")
        if spared == "no":
            return None
        tokens = self.data.draw(st.none() | st.integers(0, 5), label="so many of them")
        instead = replace(method, routing_key="another, and longer") if spared == "changes" else None
        known = CachedDecision(Command(0, method), Verdict(command=Command(0, instead or method)), Stage.METHOD)
        known.method = instead
        return CachedPasses(known, () if tokens is None else (Credit(tokens),))


class Party:
    """One peer, which says what it may, as far as it knows: one watcher is its view of the connection."""

    def __init__(self, peer: Peer, water: Water, data: st.DataObject) -> None:
        self.peer = peer
        self.view = water.watchers[peer]
        self.data = data
        self.unsaid: dict[int, list[bytes]] = {}
        self.consumers = 0

    def next_words(self) -> bytes | None:
        """A frame that it may send now; None when it has nothing to say."""
        number = self.data.draw(st.integers(1, 2), label=f"the {self.peer} on channel")
        channel = self.view.channels.get(number)
        if channel is None:
            self.unsaid.pop(number, None)
            return encode_method(number, ChannelOpen()) if self.peer is CLIENT else None
        closed_by_other = ChannelState.CLOSED_BY_SERVER if self.peer is CLIENT else ChannelState.CLOSED_BY_CLIENT
        if channel.state in (closed_by_other, ChannelState.CLOSED_BY_BOTH):
            if self.unsaid.get(number):
                return self.unsaid[number].pop(0)  # a content that was under way is said to its end
            return encode_method(number, ChannelCloseOk())
        if channel.state not in (ChannelState.OPEN, ChannelState.OPENING):
            return None
        if self.unsaid.get(number):
            return self.unsaid[number].pop(0)
        method = self._client_method(channel) if self.peer is CLIENT else self._server_method(channel)
        if method is None:
            return None
        frames = [encode_method(number, method)]
        if method.carries_content:
            body = self.data.draw(st.sampled_from([b"", b"a", b"abcdef"]))
            frames.append(encode_frame(HEADER, number, ContentHeader(len(body)).encode()))
            half = len(body) // 2
            frames += [encode_frame(BODY, number, part) for part in (body[:half], body[half:]) if part]
        self.unsaid[number] = frames[1:]
        return frames[0]

    def _client_method(self, channel) -> Method | None:
        if channel.state is not ChannelState.OPEN:
            return None
        names = ["publish"] * 4 + ["consume", "get", "declare", "select", "close"]
        tags = list(channel.unacked._open)
        if tags:
            names += ["ack", "ack", "ack", "nack", "reject"]
        match self.data.draw(st.sampled_from(names)):
            case "publish":
                return BasicPublish(routing_key="k")
            case "consume":
                return BasicConsume(
                    queue="q", consumer_tag=f"c{len(channel.consumers)}x{self.data.draw(st.integers(0, 99))}"
                )
            case "get":
                return BasicGet(queue="q")
            case "declare":
                return QueueDeclare(queue="q")
            case "select":
                return ConfirmSelect()
            case "close":
                return ChannelClose(200, "bye", 0, 0)
            case "ack":
                return BasicAck(self.data.draw(st.sampled_from([0, *tags])) or tags[-1], self.data.draw(st.booleans()))
            case "nack":
                return BasicNack(self.data.draw(st.sampled_from(tags)), True, False)
            case _:
                return BasicReject(self.data.draw(st.sampled_from(tags)), True)

    def _server_method(self, channel) -> Method | None:
        if channel.state is ChannelState.OPENING:
            return BY_NAME["channel.open-ok"]()
        names = ["close"]
        awaited = [name for name, waiting in channel.awaited[CLIENT].items() if waiting]
        names += [*awaited] * 3
        if channel.consumers:
            names += ["deliver"] * 4
        unconfirmed = list(channel.unconfirmed._open)
        if unconfirmed:
            names += ["ack"] * 3
        match self.data.draw(st.sampled_from(names)):
            case "close":
                return ChannelClose(404, "gone", 0, 0) if self.data.draw(st.integers(0, 3)) == 0 else None
            case "deliver":
                return BasicDeliver(self.data.draw(st.sampled_from(list(channel.consumers))), channel.unacked.last + 1)
            case "ack":
                return BasicAck(self.data.draw(st.sampled_from(unconfirmed)), self.data.draw(st.booleans()))
            case name:
                reply = BY_NAME[REPLY[name]]
                tag = channel.awaited[CLIENT][name][0].consumer_tag
                if name == "basic.get":
                    return reply(delivery_tag=channel.unacked.last + 1)
                return reply(consumer_tag=tag) if "consumer_tag" in reply.__struct_fields__ else reply()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_neither_peer_ever_gets_what_it_may_not(data):
    stage = data.draw(st.sampled_from([Stage.METHOD, Stage.HEADER, Stage.BODY]))
    evaluator = Sparing(verdicts(data), EVALUATED, stage)
    evaluator.data = data
    water = opened(evaluator)
    parties = [Party(peer, water, data) for peer in (CLIENT, SERVER)]
    for _ in range(data.draw(st.integers(0, 60))):
        party = data.draw(st.sampled_from([*parties, *parties, None]), label="who")
        if party is None:
            water.wait(0.5)
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
