"""Whatever is under way on a channel when an operator closes or pauses it, neither peer gets what it may not, and
nothing on the other channels changes."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.errors import PreconditionFailed, Scope
from amqproxy.amqp091.frame import Frame, encode_method, every_frame
from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk, Method
from amqproxy.amqp091.transitions import CLIENT, SERVER, ChannelState, Peer
from amqproxy.proxy.amqp091.interception.channel_closing import close_both, takes_close
from amqproxy.proxy.amqp091.interception.interceptor import Amqp091Interceptor
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close
from amqproxy.taps.note import NOTHING
from tests.example_count import example_count
from tests.proxy.interceptor_transcript import PRELUDE, ScriptedEvaluator, Water, read
from tests.proxy.party import Party

BY_OPERATOR = Close(Scope.CHANNEL, 406, "PRECONDITION_FAILED - enough", farewell="enough")


class Operated(Water):
    """Two legs without rules, which all passes between, until an operator does something to a channel."""

    def __init__(self) -> None:
        super().__init__(ScriptedEvaluator(lambda context: pytest.fail("there are no rules"), []))
        self.legs = self.interceptor.connections
        ends: Any = {peer: SimpleNamespace(connection=leg, reader=leg.readers[peer]) for peer, leg in self.legs.items()}
        self.met: list[tuple[Peer, Method]] = []
        self.passage: PassThrough | Amqp091Interceptor = PassThrough(ends, Client(), self.met)
        for peer, leg in self.legs.items():
            leg.readers[peer].unseen = None
        self.passage.ask_for_frames()
        self.sent: dict[tuple[Peer, int], list[bytes]] = defaultdict(list)
        self.received: dict[tuple[Peer, int], list[bytes]] = defaultdict(list)
        for line in PRELUDE.strip().splitlines():
            sender, octets = read(line)
            self.note(sender, octets)
            assert self.carry(sender, octets)[sender.other] == octets
        self.sent.clear()
        self.received.clear()

    def note(self, sender: Peer, octets: bytes) -> None:
        super().note(sender, octets)
        for frame in every_frame(octets, 0):
            self.sent[sender, frame.channel].append(frame.raw)

    def note_heard(self, peer: Peer, frame: Frame) -> None:
        super().note_heard(peer, frame)
        self.received[peer, frame.channel].append(frame.raw)

    def carry(self, sender: Peer, octets: bytes) -> dict[Peer, bytes]:
        reader = self.legs[sender].readers[sender]
        frames = reader.feed(octets)
        if not frames and self.passage.relays_unseen:
            return self._heard({sender.other: bytes(reader.taken), sender: b""})
        self.passage.take(sender, frames, self.now)
        return self.hear()

    def hear(self) -> dict[Peer, bytes]:
        return self._heard({peer: bytes(self.passage.take_output(peer)) for peer in Peer})

    def _heard(self, heard: dict[Peer, bytes]) -> dict[Peer, bytes]:
        for peer, octets in heard.items():
            for frame in every_frame(octets, 0):
                self.assemblers[peer].take(frame)
                self.note_heard(peer, frame)
        return heard

    def tick(self) -> None:
        """Let go on what is resumed, turn by turn."""
        while isinstance(self.passage, Amqp091Interceptor) and self.passage.next_deadline <= self.now:
            self.passage.tick(self.now)
            self.hear()

    @property
    def intercepting(self) -> Amqp091Interceptor:
        """What takes the frames from now on; made when it is first asked for, as a session does."""
        if isinstance(self.passage, PassThrough):
            client = self.passage.client
            self.passage = Amqp091Interceptor(
                self.legs,
                RuleSet(()).evaluator(client),
                client,
                random=random.Random(1).random,
                time=lambda: 0.0,
                met=lambda sender, method: self.met.append((sender, method)),
            )
        return self.passage

    def is_open(self, number: int) -> bool:
        channels = [self.legs[peer].channels.get(number) for peer in Peer]
        return all(channel is not None and channel.takes_frames for channel in channels)

    def close(self, number: int) -> None:
        self.intercepting.close_channel(number, BY_OPERATOR, self.now)
        self.hear()

    def pause(self, number: int) -> None:
        self.intercepting.pause_channel(number, self.now)

    def resume(self, number: int) -> None:
        self.intercepting.resume_channel(number, self.now)
        self.hear()
        self.tick()


def finish(parties: list[Party], water: Operated) -> None:
    """Let both say the rest of what they have begun, and answer every close."""
    for _ in range(30):
        for party in parties:
            for number in (1, 2):
                while party.unsaid.get(number) and number in party.view.channels:
                    say(water, party.peer, party.unsaid[number].pop(0))
                channel = party.view.channels.get(number)
                by_other = ChannelState.CLOSED_BY_SERVER if party.peer is CLIENT else ChannelState.CLOSED_BY_CLIENT
                if channel is not None and channel.state in (by_other, ChannelState.CLOSED_BY_BOTH):
                    say(water, party.peer, encode_method(number, ChannelCloseOk()))


def say(water: Operated, sender: Peer, octets: bytes) -> None:
    water.note(sender, octets)
    water.carry(sender, octets)


@pytest.mark.slow
@settings(max_examples=example_count(100), deadline=None)
@given(st.data())
def test_a_channel_that_is_closed_and_paused_at_any_moment(data: st.DataObject) -> None:
    """The operator's are on channel 1: on channel 2 all passes as it was sent."""
    water = Operated()
    parties = [Party(peer, water, data) for peer in (CLIENT, SERVER)]
    actions = ["client", "server"] * 4 + ["close", "pause", "resume"]
    for _ in range(data.draw(st.integers(0, 40))):
        action = data.draw(st.sampled_from(actions), label="what")
        if action == "close" and water.is_open(1):
            water.close(1)
        elif action == "pause" and water.is_open(1):
            water.pause(1)
        elif (
            action == "resume" and isinstance(water.passage, Amqp091Interceptor) and 1 in water.passage.paused_channels
        ):
            water.resume(1)
        elif action in ("client", "server"):
            party = parties[action == "server"]
            said = b""
            for _ in range(data.draw(st.integers(1, 4), label="so many frames at once")):
                words = party.next_words()
                if words is not None:
                    water.note(party.peer, words)
                    said += words
            middle = data.draw(st.integers(0, len(said)), label="read up to")
            water.carry(party.peer, said[:middle])
            water.carry(party.peer, said[middle:])
    if isinstance(water.passage, Amqp091Interceptor):
        water.resume(1)
        assert water.passage.paused_channels == []
    finish(parties, water)
    for sender in Peer:
        assert water.received[sender.other, 2] == water.sent[sender, 2]
    if isinstance(water.passage, Amqp091Interceptor):
        assert water.passage.refusal is None
        assert water.passage.fault is None
        water.passage.end()
        assert water.passage.share.used == 0


@pytest.mark.slow
@settings(max_examples=example_count(100), deadline=None)
@given(st.data())
def test_a_channel_that_is_only_paused_loses_and_reorders_nothing(data: st.DataObject) -> None:
    water = Operated()
    parties = [Party(peer, water, data) for peer in (CLIENT, SERVER)]
    for _ in range(data.draw(st.integers(0, 40))):
        action = data.draw(st.sampled_from(["client", "server"] * 4 + ["pause", "resume"]))
        if action == "pause" and water.is_open(1):
            water.pause(1)
        elif action == "resume":
            water.resume(1)
        elif action in ("client", "server"):
            party = parties[action == "server"]
            words = party.next_words()
            if words is not None and not closes(words):
                say(water, party.peer, words)
    water.resume(1)
    finish(parties, water)
    for sender in Peer:
        for number in (1, 2):
            assert water.received[sender.other, number] == water.sent[sender, number]


def closes(words: bytes) -> bool:
    """A close would have the other's frames dropped that cross it, as it should."""
    return any(frame.index == ChannelClose.index for frame in every_frame(words, 0))


# --- what is sent to whom


def test_who_has_closed_is_answered_and_who_has_not_is_asked() -> None:
    water = Operated()
    assert takes_close(water.legs, 1)
    asked = [action for action in close_both(water.legs, 1, BY_OPERATOR, (0, 0), NOTHING) if hasattr(action, "to")]
    assert [(each.to, each.method) for each in asked] == [
        (CLIENT, ChannelClose(406, "PRECONDITION_FAILED - enough", 0, 0)),
        (SERVER, ChannelClose(200, "enough", 0, 0)),
    ]
    by_rule = Close(Scope.CHANNEL, 403, "no", SERVER)
    asked = [action for action in close_both(water.legs, 1, by_rule, (60, 40), NOTHING) if hasattr(action, "to")]
    assert [(each.to, each.method) for each in asked] == [
        (CLIENT, ChannelClose(200, "closed by a rule of the proxy", 0, 0)),
        (SERVER, ChannelClose(403, "no", 60, 40)),
    ]


def test_a_channel_that_both_have_closed_takes_no_close() -> None:
    water = Operated()
    say(water, CLIENT, read(">> 1 channel.close reply_code=200")[1])
    assert not takes_close(water.legs, 1)
    before = dict(water.received)
    with suppress(PreconditionFailed):
        water.close(1)
    assert dict(water.received) == before
