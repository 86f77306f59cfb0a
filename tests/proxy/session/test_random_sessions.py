"""Random traffic of both peers, and random acts of an operator beside it: no peer ever receives what is not allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.control import session_control
from amqproxy.control.request import CloseSession, Pause, Resume
from amqproxy.control.request_error import RequestError
from amqproxy.proxy.session.session import Session
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.proxy.session.random_peer import CHANNELS, RandomBroker, RandomClient
from tests.proxy.stage import OPEN, Stage, staged
from tests.rules.scene import rule
from tests.transcripts.words import method, octets

MOST_ROUNDS = 200
"""In which all that is held must have gone on, one after the other."""

RULES = (
    "",
    'name = "h"\naction = "hold"\ntimeout = 5\nmatch.method = ["basic.publish", "basic.ack"]',
    'name = "d"\naction = "fault"\nfault.kind = "delay"\nfault.seconds = 1\nmatch.method = "basic.publish"',
    'name = "no"\naction = "refuse"\nmatch.method = "basic.publish"\nmatch.routing_key = "bad"',
)


def rules(dice: Random) -> RuleSet:
    source = dice.choice(RULES)
    return RuleSet([rule(source)] if source else [])


class RandomPlay:
    """A session with random peers and a random operator."""

    def __init__(self, stage: Stage, dice: Random) -> None:
        self.stage = stage
        self.dice = dice
        self.client = RandomClient(stage.client, dice)
        self.broker = RandomBroker(stage.broker, dice)
        stage.client.look()
        stage.broker.look()
        self._acts: dict[Callable[[Session], object], float] = {
            self._pause: 6,
            self._resume: 8,
            self._close_channel: 4,
            self._apply_rules: 4,
        }
        self._ends: dict[Callable[[Session], object], float] = {Session.drain: 1, self._close: 0.5, self._hang_up: 0.5}

    async def go_on(self, *, may_end: bool) -> None:
        """One step: a peer or the operator does something, or time passes."""
        chance = self.dice.random()
        if chance < 0.65:
            self.dice.choice([self.client, self.client, self.client, self.broker, self.broker]).act()
        elif chance < 0.72:
            await self.settle()
        elif chance < 0.74:
            await trio.sleep(self.dice.choice([0.5, 2, 6]))
        else:
            acts = self._acts | (self._ends if may_end else {})
            [act] = self.dice.choices(list(acts), list(acts.values()))
            with suppress(RequestError):  # nothing to resume, no such channel, not open
                act(self.stage.session)

    async def settle(self) -> None:
        """Both take what has come."""
        await wait_all_tasks_blocked()
        self.client.receive()
        self.broker.receive()

    async def finish(self) -> None:
        """What was paused, held or half sent comes to its end."""
        for channel in (None, *CHANNELS):
            with suppress(RequestError):
                session_control.resume(self.stage.session, Resume(session=1, channel=channel))
        for round_ in range(MOST_ROUNDS):
            interceptor = self.stage.session.interceptor
            if round_ >= 12 and (interceptor is None or not interceptor.waiting):
                break
            await self.settle()
            self.client.complete_all()
            self.broker.complete_all()
            await trio.sleep(3)

    async def check_that_channels_can_be_used(self) -> None:
        """Each number can be opened, or closed."""
        for channel in CHANNELS:
            if channel not in self.client.channels:
                self.client.reopen(channel)
            elif self.client.channels[channel] == "open":
                self.client.close_channel(channel, 200)
        for _ in range(4):
            await self.settle()
        assert set(self.client.channels.values()) <= {"open"}
        assert not self.stage.session.paused_channels
        assert not self.stage.session.is_paused

    async def end(self) -> None:
        """The client closes, or has; then nothing is left."""
        if not (self.stage.is_over.is_set() or self.client.is_closed or self.client.has_closed):
            await self.check_that_channels_can_be_used()
            self.client.close()
            for _ in range(6):
                await self.settle()
                await trio.sleep(3)
            assert self.client.is_closed
        for actor in (self.stage.client, self.stage.broker):
            actor.socket.close()
        with trio.fail_after(200):
            await self.stage.is_over.wait()
        assert self.stage.session._parts.share.used == 0

    # --- what the operator does, and how the connection may end

    def _pause(self, session: Session) -> None:
        session_control.pause(session, Pause(session=1, channel=self.dice.choice([None, *CHANNELS])))

    def _resume(self, session: Session) -> None:
        session_control.resume(session, Resume(session=1, channel=self.dice.choice([None, *CHANNELS])))

    def _close_channel(self, session: Session) -> None:
        session_control.close(session, CloseSession(session=1, channel=self.dice.choice(CHANNELS), text="x"))

    def _apply_rules(self, session: Session) -> None:
        session.apply_rules(RuleSet(rules(self.dice).rules, session._rules))

    def _close(self, session: Session) -> None:
        session_control.close(session, CloseSession(session=1, text="x"))

    def _hang_up(self, session: Session) -> None:
        if not (self.client.is_closed or self.client.has_closed):
            self.client.close()


def errors_of(lines: Iterable[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """What is an error of ours, or blames a peer, which here do nothing wrong."""
    return [line for line in lines if line["log_level"] == "error" or "broke the protocol" in str(line)]


async def play(seed: int) -> None:
    """Play what a seed makes of it: the same each time, since trio's turns are made from it too."""
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio._core._run._r.seed(seed)
    dice = Random(seed)
    with capture_logs() as log:
        async with staged(OPEN, rules=rules(dice), topology=ObservedTopology()) as stage:
            random_play = RandomPlay(stage, dice)
            try:
                for step in range(dice.randint(5, 80)):
                    if stage.is_over.is_set():
                        break
                    await random_play.go_on(may_end=step > 10)
                await random_play.finish()
                assert errors_of(log) == []
                await random_play.end()
            except BaseException as failure:
                for peer in (random_play.client, random_play.broker):
                    failure.add_note("\n".join([f"seed {seed}, {type(peer).__name__}:", *peer.passed[-60:]]))
                raise


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 100, 20)], ids=str)
async def test_no_peer_receives_what_is_not_allowed(autojump_clock: MockClock, seeds: range) -> None:
    for seed in seeds:
        await play(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_nor_in_many_sessions(autojump_clock: MockClock) -> None:
    for seed in range(1000, 20_000):
        await play(seed)


async def test_what_follows_a_refused_publish_stays_with_a_channel_that_its_client_closes_at_once(
    autojump_clock: MockClock,
) -> None:
    """Found by chance: also where all that follows comes in one read, which has the end of the channel."""
    async with staged(OPEN, rules=RuleSet([rule(RULES[-1])])) as stage:
        await stage.play(">> 2: basic.publish, 2: header 0")  # is evaluated, and no longer from then on
        stage.client.say(method("basic.publish", 1, routing_key="bad"))
        await wait_all_tasks_blocked()
        stage.client.say(octets("1: header 0, 1: basic.publish, 1: header 0, 1: channel.close"))
        await stage.play("broker: 1: channel.close 200")


async def test_a_client_that_has_closed_is_not_told_of_a_channel_that_an_operator_closes(
    autojump_clock: MockClock,
) -> None:
    """Found by chance: the close waited for the end of a delivery, of which the client is sent no more."""
    async with staged(OPEN, rules=RuleSet([rule(RULES[-1])])) as stage:
        await stage.play("<< 2: basic.deliver")
        session_control.close(stage.session, CloseSession(session=1, channel=2, text="x"))
        await stage.play("""
            >> connection.close 200
            broker: connection.close 200
            << 2: header 3, 2: body 3
            client: nothing
        """)
