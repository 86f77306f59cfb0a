"""Whatever is decided, what both peers hear means what the other said and the verdicts made of it, and nothing else.

Random clients and brokers talk in random chunks through an interceptor whose verdicts are random too. Two ledgers keep
what each of them has said and heard of each message, by a name of the message's own.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueDeclare,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, REPLIES, SERVER, ChannelState, Peer
from amqproxy.proxy.amqp091.interception.encoding import method_frame
from amqproxy.proxy.amqp091.interception.tag_translation import _OPEN
from amqproxy.rules.verdict import Answer, Close, HoldAction, Insertion, Stage, Verdict
from tests.example_count import example_count
from tests.proxy.interceptor_transcript import ScriptedEvaluator, Water, opened

pytestmark = pytest.mark.slow

EVALUATED = [
    "basic.publish",
    "basic.deliver",
    "basic.get-ok",
    "basic.ack",
    "basic.nack",
    "basic.cancel-ok",
    "queue.declare",
    "queue.declare-ok",
    "confirm.select",
    "channel.open",
    "channel.close",
]
NUMBERS = (1, 2)
OWN = "own"
CLOSED_BY_OTHER = {
    CLIENT: (ChannelState.CLOSED_BY_SERVER, ChannelState.CLOSED_BY_BOTH),
    SERVER: (ChannelState.CLOSED_BY_CLIENT, ChannelState.CLOSED_BY_BOTH),
}


def name_in(method: Method) -> str | None:
    """The name of the message that a method begins."""
    return method.routing_key if isinstance(method, (BasicPublish, BasicDeliver, BasicGetOk)) else None


class Ledger:
    """What one peer has said and heard of messages, on its leg."""

    def __init__(self) -> None:
        self.published: list[tuple[int, str]] = []
        """Channel and name of each publish that was said or heard, in their order."""
        self.unconfirmed: dict[int, dict[int, str]] = {number: {} for number in NUMBERS}
        self.confirmed: Counter[tuple[str, str]] = Counter()
        """How often each name was confirmed in which way."""
        self.delivered: list[tuple[int, str]] = []
        self.unsettled: dict[int, dict[int, str]] = {number: {} for number in NUMBERS}
        self.settled: Counter[tuple[str, str]] = Counter()
        """The same of deliveries; those that a transaction has taken back were not."""
        self.ever_settled: set[tuple[str, str]] = set()
        self._in_transaction: dict[int, list[tuple[str, str]]] = {number: [] for number in NUMBERS}

    def note(self, sender: Peer, frame: Frame, channel) -> None:
        """Note a frame before the watcher of the leg, whose `channel` is as it was, has seen it."""
        if frame.kind != METHOD or channel is None or not channel.takes_frames:
            return
        number, method = frame.channel, frame.method
        match method:
            case BasicPublish():
                self.published.append((number, name_in(method)))
                if channel.mode == "confirm":
                    self.unconfirmed[number][channel.unconfirmed.last + 1] = name_in(method)
            case BasicDeliver() | BasicGetOk():
                self.delivered.append((number, name_in(method)))
                self.unsettled[number][method.delivery_tag] = name_in(method)
            case BasicAck() | BasicNack() | BasicReject():
                tags = channel.unacked if sender is CLIENT else channel.unconfirmed
                names = self.unsettled[number] if sender is CLIENT else self.unconfirmed[number]
                way = kind_of(method, sender)
                taken = _taken(tags._open, method)
                if sender is SERVER:
                    self.confirmed.update([(names[tag], way) for tag in taken])
                else:
                    said = [(names[tag], way) for tag in taken]
                    self.settled.update(said)
                    self.ever_settled.update(said)
                    if channel.mode == "tx":
                        self._in_transaction[number] += said
            case TxCommit():
                self._in_transaction[number] = []
            case TxRollback():
                self.settled.subtract(self._in_transaction[number])
                self._in_transaction[number] = []
            case _ if method.name in ("channel.open", "channel.close"):
                self._in_transaction[number] = []


def kind_of(method: Method, sender: Peer) -> str:
    if isinstance(method, BasicAck):
        return "ack"
    if sender is SERVER:
        return "nack"
    return "requeue" if method.requeue else "reject"


def _taken(open_tags, method: Method) -> list[int]:
    tag, multiple = method.delivery_tag, getattr(method, "multiple", False)
    if not multiple:
        return [tag]
    return [each for each in open_tags if tag == 0 or each <= tag]


class Sea(Water):
    """Water in which the peers' ledgers are kept."""

    ledgers: dict[Peer, Ledger]

    def hear(self) -> dict[Peer, bytes]:
        if not hasattr(self, "ledgers"):
            return super().hear()
        heard = {peer: bytes(self.interceptor.take_output(peer)) for peer in Peer}
        for peer, octets in heard.items():
            for frame in every_frame(octets, 0):
                self.assemblers[peer].take(frame)
                self.see(peer, peer.other, frame)
        return heard

    def see(self, leg: Peer, sender: Peer, frame: Frame) -> None:
        """Let a leg's ledger and watcher see a frame; raises if it may not come."""
        watcher = self.watchers[leg]
        if leg is CLIENT and sender is SERVER and frame.index in (BasicAck.index, BasicNack.index):
            certain = self._certain(frame)
            if certain is None:
                return
            frame = certain
        self.ledgers[leg].note(sender, frame, watcher.channels.get(frame.channel))
        watcher.feed(sender, frame.raw)

    def _certain(self, frame: Frame) -> Frame | None:
        """A confirm of several, as one that is open; None where none is.

        What the broker confirms with all before it stands for those from before the legs differed too, of which
        nothing is known: the last of them may have been confirmed already.
        """
        channel = self.watchers[CLIENT].channels.get(frame.channel)
        if channel is None or not frame.method.multiple or not channel.takes_frames:
            return frame
        meant = [tag for tag in channel.unconfirmed._open if tag <= frame.method.delivery_tag]
        return method_frame(frame.channel, replace(frame.method, delivery_tag=meant[-1])) if meant else None


class Fates:
    """Verdicts as drawn, and what became of each message by them."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.may_lose = self.may_lose_confirms = False
        self.uncertain: set[str] = set()
        """What was published before rules dropped confirms: a later confirm may stand for a lost one."""
        self.of: dict[str, str] = {}
        self.unconfirmable: set[str] = set()
        self.copied: set[str] = set()
        self.changes_order = False
        self.confirming: dict[tuple[int, int, bool], list[str]] = {}

    def decide(self, context) -> Verdict:
        command = context.command
        method = command.method
        choices = ["pass"] * 6 + ["close", "delay", "held"]
        name = name_in(method)
        if isinstance(method, BasicPublish):
            choices += ["nothing", "ack", "nack", "return", "own", "own ahead", "own later"]
        elif isinstance(method, BasicDeliver):
            choices += ["ack", "reject", "requeue", "copy", "copy", "own", "qos"]
            choices += ["nothing", "behind"] if self.may_lose else []
        elif isinstance(method, BasicGetOk):
            choices += ["copy"]
        elif isinstance(method, (BasicAck, BasicNack)) and context.sender is SERVER and self.may_lose_confirms:
            choices += ["lost"]
        elif method.name == "queue.declare":
            choices += ["own", "own ahead", "own later", "qos"]
        if method.name in ("channel.close", "channel.open"):
            choices = ["pass", "delay"]
        choice = self.dice.choice(choices)
        number = command.channel
        own = Command(number, BasicPublish(routing_key=OWN), body=b"own")
        match choice:
            case "close":
                return self.fated(name, "closed", Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")))
            case "delay":
                return self.fated(name, "pass", Verdict(command=command, delay=1.0))
            case "held":
                return self.fated(name, "closed", Verdict(command=command, hold=HoldAction("it", 1.5, False)))
            case "own" | "own ahead" | "own later":
                after = 0.5 if choice == "own later" else 0.0
                insertion = Insertion(SERVER, own, after=after, is_ahead=choice == "own ahead")
                return self.fated(name, "pass", Verdict(command=command, insertions=(insertion,)))
            case "qos":
                insertion = Insertion(SERVER, Command(number, BasicQos(0, 7, False)))
                return self.fated(name, "pass", Verdict(command=command, insertions=(insertion,)))
            case "copy" if isinstance(method, BasicDeliver):
                copy = Command(number, replace(method, redelivered=True, routing_key=f"copy {name}"), body=command.body)
                return self.fated(name, "pass", Verdict(command=command, insertions=(Insertion(CLIENT, copy),)))
            case "behind":
                self.changes_order = True
                return self.fated(name, "pass", Verdict(command=command, behind=2))
            case "lost":
                lost = self.confirming[number, method.delivery_tag, method.multiple]
                self.unconfirmable.update(lost)
                return Verdict(command=None)
            case "pass" | "copy":
                return self.fated(name, "pass", Verdict(command=command))
            case answer:
                return self.fated(name, answer, Verdict(command=None, answer=Answer(answer)))

    def fated(self, name: str | None, fate: str, verdict: Verdict) -> Verdict:
        if name is not None:
            assert name not in self.of, f"{name} is evaluated twice"
            self.of[name] = fate
        return verdict


class Party:
    """One peer. It says what it may, as far as it knows, in chunks that are cut anywhere."""

    def __init__(self, peer: Peer, sea: Sea, fates: Fates, dice: Random) -> None:
        self.peer = peer
        self.sea = sea
        self.view = sea.watchers[peer]
        self.fates = fates
        self.dice = dice
        self.unsaid: dict[int, list[bytes]] = {}
        self.unsent = b""
        self.count = 0
        self.may_close = True

    def think(self, number: int, *, is_ending: bool = False) -> bool:
        """Say one frame on a channel, though it may not leave yet; False when there is nothing to say."""
        raw = self._next(number, is_ending=is_ending)
        if raw is None:
            return False
        (frame,) = every_frame(raw, 0)
        channel = self.view.channels.get(number)
        if frame.kind == METHOD and isinstance(frame.method, (BasicAck, BasicNack)) and self.peer is SERVER:
            method, names = frame.method, self.sea.ledgers[SERVER].unconfirmed[number]
            taken = [names[tag] for tag in _taken(channel.unconfirmed._open, method)]
            self.fates.confirming[number, method.delivery_tag, method.multiple] = taken
        self.sea.see(self.peer, self.peer, frame)
        self.unsent += raw
        return True

    def send(self, size: int | None = None) -> None:
        """Send so many bytes of what was said; None: all."""
        chunk, self.unsent = self.unsent[:size], self.unsent[size:] if size is not None else b""
        if chunk:
            self.sea.carry(self.peer, chunk)

    def _next(self, number: int, *, is_ending: bool) -> bytes | None:
        channel = self.view.channels.get(number)
        if channel is None:
            self.unsaid.pop(number, None)
            return encode_method(number, ChannelOpen()) if self.peer is CLIENT and not is_ending else None
        if channel.state in CLOSED_BY_OTHER[self.peer]:
            if self.unsaid.get(number):
                return self.unsaid[number].pop(0)  # a content that was under way is said to its end
            return encode_method(number, ChannelCloseOk())
        if channel.state not in (ChannelState.OPEN, ChannelState.OPENING):
            return None
        if self.unsaid.get(number):
            return self.unsaid[number].pop(0)
        if self.peer is CLIENT:
            method = self._last_of_client(channel) if is_ending else self._of_client(channel)
        else:
            method = self._of_server(channel, is_ending=is_ending)
        if method is None:
            return None
        frames = [encode_method(number, method)]
        if method.carries_content:
            body = self.dice.choice([b"", b"a", b"abcdef"])
            frames.append(encode_frame(HEADER, number, ContentHeader(len(body)).encode()))
            half = len(body) // 2
            frames += [encode_frame(BODY, number, part) for part in (body[:half], body[half:]) if part]
        self.unsaid[number] = frames[1:]
        return frames[0]

    def _name(self) -> str:
        self.count += 1
        return f"{'p' if self.peer is CLIENT else 'd'}{self.count:04}"

    def _may_settle(self, channel) -> bool:
        return not channel.awaited[CLIENT].get("basic.recover")

    def _last_of_client(self, channel) -> Method | None:
        if channel.state is ChannelState.OPEN and channel.unacked._open and self._may_settle(channel):
            return BasicAck(list(channel.unacked._open)[-1], True)
        return None

    def _of_client(self, channel) -> Method | None:
        if channel.state is not ChannelState.OPEN:
            return None
        names = ["publish"] * 5 + ["consume", "consume", "get", "declare", "qos", "close"]
        # What a rollback behind an unanswered recover reopens, recover-ok would take away again, on this leg only.
        in_transaction = ["commit", "rollback"] if self._may_settle(channel) else ["commit"]
        names += {"normal": ["confirm"] * 3 + ["tx"], "confirm": ["confirm"], "tx": in_transaction}[channel.mode]
        tags = list(channel.unacked._open)
        if tags and self._may_settle(channel):
            names += ["ack"] * 4 + ["nack", "reject", "recover"]
        if channel.consumers:
            names += ["cancel"]
        match self.dice.choice(names):
            case "publish":
                return BasicPublish(routing_key=self._name())
            case "consume":
                self.count += 1
                return BasicConsume(queue="q", consumer_tag=f"c{self.count}", no_ack=self.dice.random() < 0.5)
            case "cancel":
                return BasicCancel(self.dice.choice(list(channel.consumers)), False)
            case "get":
                return BasicGet(queue="q", no_ack=self.dice.random() < 0.5)
            case "declare":
                return QueueDeclare(queue="q")
            case "qos":
                return BasicQos(0, 5, False)
            case "confirm":
                return ConfirmSelect()
            case "tx":
                return TxSelect()
            case "commit":
                return TxCommit()
            case "rollback":
                return TxRollback()
            case "recover":
                return BasicRecover(True)
            case "close":
                return ChannelClose(200, "bye", 0, 0) if self.may_close and self.dice.randint(0, 3) == 0 else None
            case "reject":
                return BasicReject(self.dice.choice(tags), self.dice.random() < 0.5)
            case way:
                multiple = self.dice.random() < 0.5
                tag = self.dice.choice(tags)
                return BasicAck(tag, multiple) if way == "ack" else BasicNack(tag, multiple, True)

    def _of_server(self, channel, *, is_ending: bool) -> Method | None:
        if channel.state is ChannelState.OPENING:
            return BY_NAME["channel.open-ok"]()
        names = [name for name, waiting in channel.awaited[CLIENT].items() if waiting] * 3
        unconfirmed = list(channel.unconfirmed._open)
        if is_ending and not names:
            return BasicAck(unconfirmed[-1], True) if unconfirmed else None
        if not is_ending:
            names += ["close"]
            names += ["deliver"] * 5 if channel.consumers else []
            names += ["ack"] * 3 + ["nack"] if unconfirmed else []
        match self.dice.choice(names):
            case "close":
                return ChannelClose(404, "gone", 0, 0) if self.may_close and self.dice.randint(0, 5) == 0 else None
            case "deliver":
                tag = self.dice.choice(list(channel.consumers))
                return BasicDeliver(tag, self._next_tag(channel), routing_key=self._name())
            case "ack":
                return BasicAck(self.dice.choice(unconfirmed), self.dice.random() < 0.5)
            case "nack":
                return BasicNack(self.dice.choice(unconfirmed), self.dice.random() < 0.5, False)
            case name:
                return self._reply(channel, name)

    def _reply(self, channel, name: str) -> Method:
        reply = BY_NAME[REPLIES[name][0]]
        tag = channel.awaited[CLIENT][name][0].consumer_tag
        if name == "basic.get":
            return BasicGetOk(delivery_tag=self._next_tag(channel), routing_key=self._name())
        return reply(consumer_tag=tag) if "consumer_tag" in reply.__struct_fields__ else reply()

    def _next_tag(self, channel) -> int:
        ledger = self.sea.ledgers[SERVER]
        return max([channel.unacked.last, *ledger.unsettled[channel.number]]) + 1


def owed_up_to(sea: Sea, number: int) -> int:
    """The last delivery that the client has settled and the broker not been told of, since nothing may name it: see
    `DeliveryTagTranslation`. No later settlement of the same kind has come; 0 if there is none.
    """
    channel = sea.interceptor.channels.get(number)
    deliveries = None if channel is None else channel.tags.deliveries
    if deliveries is None or deliveries._before in (None, _OPEN):
        return 0
    return deliveries._start


def losing_evaluator(fates: Fates, stages: list[Stage]) -> ScriptedEvaluator:
    evaluator = ScriptedEvaluator(fates.decide, EVALUATED, fates.dice.choice(stages))
    evaluator.reads_unacked, evaluator.drops_confirms = fates.may_lose, fates.may_lose_confirms
    return evaluator


def sailed(dice: Random, fates: Fates, stages: list[Stage], *, may_close: bool = True) -> tuple[Sea, list[Party]]:
    fates.may_lose = fates.may_lose_confirms = dice.random() < 0.5
    sea = opened(losing_evaluator(fates, stages), of=Sea)
    sea.ledgers = {peer: Ledger() for peer in Peer}
    parties = [Party(peer, sea, fates, dice) for peer in (CLIENT, SERVER)]
    for party in parties:
        party.may_close = may_close
    for _ in range(dice.randint(0, 80)):
        party = dice.choice([*parties, *parties, *parties, "time", "reload"])
        if party == "time":
            sea.wait(0.5)
        elif party == "reload":
            if not fates.may_lose_confirms and dice.random() < 0.5:
                fates.may_lose_confirms = True
                fates.uncertain = {name for _, name in sea.ledgers[CLIENT].published}
            sea.interceptor.evaluator = losing_evaluator(fates, stages)
            sea.interceptor.ask_for_frames()
        else:
            for _ in range(dice.randint(1, 3)):
                party.think(dice.choice(NUMBERS))
            party.send(dice.choice([None, dice.randint(0, 60)]))
    return sea, parties


def end(sea: Sea, parties: list[Party]) -> None:
    """Let everything come to rest: what has begun is said to its end, and all that can be is settled."""
    for _ in range(400):
        has_spoken = False
        for party in parties:
            for number in NUMBERS:
                while party.think(number, is_ending=True):
                    pass
            has_spoken = has_spoken or bool(party.unsent)
            party.send()
        if not has_spoken and not sea.interceptor.waiting and sea.interceptor.next_deadline == float("inf"):
            return
        sea.wait(0.5)
    raise AssertionError("it does not come to rest")


@settings(max_examples=example_count(200), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_what_is_heard_means_what_was_said(dice):
    fates = Fates(dice)
    sea, parties = sailed(dice, fates, [Stage.METHOD, Stage.HEADER, Stage.BODY])
    end(sea, parties)
    assert sea.interceptor.refusal is None
    assert not sea.interceptor.gathering.size
    assert not any(load.size for load in sea.interceptor.loads.values())
    client, broker = sea.ledgers[CLIENT], sea.ledgers[SERVER]

    # nothing comes twice, or in another order, or out of nothing
    for heard, said in ((broker.published, client.published), (client.delivered, broker.delivered)):
        others = [each for each in heard if each[1] != OWN and not each[1].startswith("copy ")]
        assert len(set(others)) == len(others)
        assert set(others) <= set(said)
        if not fates.changes_order:
            place = {each: at for at, each in enumerate(said)}
            for number in NUMBERS:
                places = [place[each] for each in others if each[0] == number]
                assert places == sorted(places)
    for number, name in (*broker.published, *client.delivered):
        assert fates.of.get(name, "pass") == "pass", (number, name)

    # each is told what became of its own, and of nothing else
    for (name, way), times in client.confirmed.items():
        assert times == 1, (name, way)
        assert name not in fates.unconfirmable - fates.uncertain
        match fates.of[name]:
            case "pass" if name not in fates.unconfirmable:
                assert broker.confirmed[name, way] == 1
            case "pass":  # its own confirm was lost, and another stands for it
                assert broker.confirmed[name, "ack"] + broker.confirmed[name, "nack"] == 1
            case "nack":
                assert way == "nack"
            case fate:
                assert fate in ("ack", "return")
                assert way == "ack"
    for (name, way), times in broker.settled.items():
        assert times in (0, 1)
        if times:
            fate = fates.of.get(name, "pass")
            assert (name, way) in client.ever_settled if fate == "pass" else fate == way

    # on channels that are still open, each is told all of it
    for number in NUMBERS:
        channels = [sea.watchers[peer].channels.get(number) for peer in Peer]
        if any(channel is None or channel.state is not ChannelState.OPEN for channel in channels):
            continue
        at_client, at_broker = channels
        for tag in at_client.unconfirmed._open:
            name = client.unconfirmed[number][tag]
            assert fates.of.get(name, "pass") == "nothing" or name in fates.unconfirmable, name
        assert not at_client.unacked._open
        for tag in at_broker.unacked._open:
            name = broker.unsettled[number][tag]
            assert fates.of.get(name) == "nothing" or tag <= owed_up_to(sea, number), name


@settings(max_examples=example_count(50), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_where_all_passes_the_octets_are_the_same(dice):
    fates = Fates(dice)
    fates.decide = lambda context: Verdict(command=context.command)  # type: ignore[method-assign]
    said: dict[Peer, bytes] = {CLIENT: b"", SERVER: b""}
    heard: dict[Peer, bytes] = {CLIENT: b"", SERVER: b""}
    carry = Sea.carry

    def noted(self: Sea, sender: Peer, octets: bytes) -> dict[Peer, bytes]:
        words = carry(self, sender, octets)
        if hasattr(self, "ledgers"):
            said[sender] += octets
            for peer, more in words.items():
                heard[peer] += more
        return words

    Sea.carry = noted  # type: ignore[method-assign]
    try:
        sea, parties = sailed(dice, fates, [Stage.NOTHING, Stage.METHOD, Stage.HEADER, Stage.BODY], may_close=False)
        end(sea, parties)
    finally:
        Sea.carry = carry  # type: ignore[method-assign]
    for peer in Peer:
        for number in NUMBERS:  # what is looked at whole is overtaken by what other channels say
            ours, theirs = (
                [frame.raw for frame in every_frame(octets, 0) if frame.channel == number]
                for octets in (heard[peer], said[peer.other])
            )
            assert ours == theirs
