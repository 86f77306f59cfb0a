"""Every way of a connection of AMQP 0-10 over to a pump, and back, with a pump that the event loop turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import ConnectionCloseOk, ConnectionHeartbeat, SessionCommandPoint, SessionCompleted
from amqproxy.control.session_entries import connection_entry
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy import watchdog
from amqproxy.proxy.session.ownership import Owner
from amqproxy.proxy.session.session import Session
from amqproxy.pump.pumps import are_available
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from tests.example_count import example_count
from tests.proxy import stage as staging
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, FAILURE, LOGIN, MESSAGES, Step, ids, method, transfer
from tests.proxy.amqp010_stage import close, names, play
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import Stage, staged
from tests.pump.amqp010.random_commands import random_amqp010_commands

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

BEAT = method(ConnectionHeartbeat(), 0)
PUBLISH = transfer(b"hello")


@pytest.fixture(autouse=True)
def most_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pump keeps a connection for as long as it may."""
    monkeypatch.setattr(staging, "frames_a_pump", 1_000_000)


def owner(stage: Stage) -> Owner:
    return stage.session.owner


STEADY: list[Step] = [(CLIENT, BEAT), (SERVER, BEAT), (CLIENT, BEAT), (SERVER, BEAT)]


@asynccontextmanager
async def pumped(**options: Any) -> AsyncIterator[Stage]:
    """A session that a pump relays."""
    async with staged(**options) as stage:
        await play(stage, [*LOGIN, *ATTACH, *STEADY])
        assert owner(stage) is Owner.PUMP
        yield stage
        stage.client.socket.close()
        with trio.fail_after(1000):
            await stage.is_over.wait()


async def test_a_session_in_its_steady_state_is_handed_over(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        assert stage.pumps is not None
        before = stage.pumps.handed_over
        await play(stage, MESSAGES)
        assert owner(stage) is Owner.PUMP
        assert stage.pumps.handed_over == before
        assert connection_entry(stage.session)["relayed_by"] == "pump"
        assert stage.count("messages_published_total") == 3
        assert stage.count("messages_confirmed_total") == 2
        assert stage.count("messages_returned_total") == 1
        assert stage.count("messages_delivered_total") == 4
        assert stage.count("messages_unacked") == 0
        assert stage.count("published_bytes_sum") == 10_002
        assert stage.count("request_seconds_count", method="queue.declare") == 1
        labels = {"sender": "client", "method": "message.transfer"}
        assert stage.count("frames_total", type="command", **labels) == 3
        assert stage.count("frames_total", type="body", **labels) == 5


BACK = {
    "a detach": DETACH,
    "an exception": FAILURE,
    "a command point": [(CLIENT, method(SessionCommandPoint(90, 0)))],
}


@pytest.mark.parametrize("steps", BACK.values(), ids=BACK.keys())
async def test_what_changes_the_session_brings_it_back(steps: list[Step], autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        assert stage.pumps is not None
        before = stage.pumps.handed_over
        await play(stage, [*steps, *ATTACH, *STEADY])
        assert owner(stage) is Owner.PUMP
        assert stage.pumps.handed_over > before


async def test_it_is_handed_over_when_nothing_comes(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as stage:
        assert stage.pumps is not None
        stage.pumps.first_chunks = 1000
        await play(stage, [*LOGIN, *ATTACH])
        assert owner(stage) is Owner.RELAYS
        await trio.sleep(1000)
        assert owner(stage) is Owner.PUMP
        await play(stage, [*MESSAGES, *DETACH, *CLOSE])
        await close(stage)
        assert stage.end == ("client", "200")


async def test_what_is_wrong_passes_as_without_a_pump(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        await play(stage, [(CLIENT, PUBLISH + b"\xff" * 20), (CLIENT, PUBLISH), (SERVER, BEAT)])
        assert owner(stage) is Owner.RELAYS, "what cannot be read is not for a pump"
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1
        assert stage.count("messages_published_total") == 1


@pytest.mark.parametrize("peer", ["client", "broker"])
async def test_a_peer_that_hangs_up(peer: str, autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        one, other = (stage.client, stage.broker) if peer == "client" else (stage.broker, stage.client)
        one.say(PUBLISH[:-2])
        one.perform("EOF")
        await wait_all_tasks_blocked()
        if peer == "broker":
            assert names(other.look()) == ["message.transfer", "connection.close"], (
                "it learns that the upstream is lost"
            )
            other.say(method(ConnectionCloseOk(), 0))
            other.perform("EOF")
            await stage.is_over.wait()
            return
        assert other.look() == PUBLISH[:-2], "the beginning of a frame, too"
        assert owner(stage) is Owner.RELAYS
        other.say(PUBLISH)
        await wait_all_tasks_blocked()
        assert one.look() == PUBLISH, "the other half goes on"
        other.perform("EOF")
        await stage.is_over.wait()


@pytest.mark.parametrize("peer", ["client", "broker"])
async def test_a_peer_that_resets(peer: str, autojump_clock: MockClock) -> None:
    async with pumped(tcp=True) as stage:
        (stage.client if peer == "client" else stage.broker).perform("RST")
        await stage.is_over.wait()
        assert owner(stage) is Owner.RELAYS


RULES = RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x"}, AnyRule)])
OTHERS = RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x", "match": {"user": "other"}}, AnyRule)])
RECALLS: dict[str, Callable[[Session], object]] = {
    "rules": lambda session: session.apply_rules(RULES),
    "a pause": lambda session: session.pause(),
    "a session that an operator pauses": lambda session: session.pause(1),
    "a heartbeat of ours": lambda session: session.send_heartbeat(),
    "a tap": lambda session: session.apply_tap(Audience()),
    "a recall": lambda session: session.recall(),
}


@pytest.mark.parametrize("act", RECALLS.values(), ids=RECALLS.keys())
async def test_what_is_done_from_outside_brings_it_back_with_all_that_was_on_its_way(
    act: Callable[[Session], object], autojump_clock: MockClock
) -> None:
    async with pumped() as stage:
        stage.client.say(PUBLISH[:-3])
        await wait_all_tasks_blocked()
        act(stage.session)
        assert owner(stage) is Owner.RELAYS
        stage.client.say(PUBLISH[-3:])
        await wait_all_tasks_blocked()
        if stage.session.is_paused:
            stage.session.resume()
            await wait_all_tasks_blocked()
        assert stage.broker.look().replace(BEAT, b"") == PUBLISH


ENDS: dict[str, Callable[[Session], object]] = {
    "a drain": lambda session: session.drain(),
    "an operator": lambda session: session.close("enough"),
    "silence": lambda session: session.disconnect(CLIENT, "is silent"),
}


@pytest.mark.parametrize("act", ENDS.values(), ids=ENDS.keys())
async def test_it_can_be_ended(act: Callable[[Session], object], autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        act(stage.session)
        with trio.fail_after(1000):
            await stage.is_over.wait()
        assert owner(stage) is Owner.RELAYS


async def test_a_tap_that_comes_in_the_middle_of_a_command_knows_its_id(autojump_clock: MockClock) -> None:
    tap = Audience()
    async with pumped() as stage:
        await play(stage, MESSAGES)
        stage.client.say(PUBLISH[:-10])
        await wait_all_tasks_blocked()
        stage.session.apply_tap(tap)
        stage.client.say(PUBLISH[-10:] + method(ExecutionSync()))
        await wait_all_tasks_blocked()
    assert tap.seen == ["client body #8", "client execution.sync #9"]


@pytest.mark.parametrize("kind", ["rules", "a tap", "a connection that is not open"])
async def test_what_keeps_it_from_a_pump(kind: str, autojump_clock: MockClock) -> None:
    options: dict[str, Any] = {}
    if kind == "rules":
        options["rules"] = RULES
    elif kind == "a tap":
        options["tap"] = Audience()
    async with staged(**options) as stage:
        await play(stage, LOGIN[:3] if kind == "a connection that is not open" else [*LOGIN, *ATTACH, *STEADY])
        await trio.sleep(2)
        assert owner(stage) is Owner.RELAYS


async def test_rules_for_other_clients_do_not_keep_it_from_a_pump(autojump_clock: MockClock) -> None:
    async with pumped(rules=OTHERS) as stage:
        stage.session.apply_rules(RULES)
        assert owner(stage) is Owner.RELAYS
        await play(stage, STEADY)
        assert owner(stage) is Owner.RELAYS
        stage.session.apply_rules(OTHERS)
        await play(stage, STEADY)
        assert owner(stage) is Owner.PUMP


async def test_a_silent_peer_is_noticed(autojump_clock: MockClock) -> None:
    async with pumped() as stage, trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.watch, {1: stage.session}, stage.limits, stage.silent)
        for _ in range(4):
            await trio.sleep(100)
            await play(stage, STEADY[:2])
        assert owner(stage) is Owner.PUMP, "both have been heard"
        with trio.fail_after(1000):
            await stage.is_over.wait()
        assert stage.end == ("proxy", "none")
        nursery.cancel_scope.cancel()


async def test_what_is_counted_is_known_at_once(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        await play(stage, [*MESSAGES[:1], *MESSAGES[3:5]])
        stage.session.refresh()
        assert stage.session.traffic is not None
        attachment = stage.session.traffic.metered.attachment(1)
        assert attachment is not None
        assert (attachment.unconfirmed, attachment.unacked) == (3, 3)
        assert owner(stage) is Owner.PUMP
        assert stage.session.client.transport.received > 10_000


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=example_count(25))
@given(seed=st.integers(0, 2**32), frames=st.integers(1, 5))
async def test_whoever_relays_what_passes_and_what_is_counted_is_the_same(seed: int, frames: int) -> None:
    def steps() -> list[Step]:
        dice = Random(seed)
        found = [*LOGIN, *ATTACH]
        for _ in range(6):
            found += [
                (peer, random_amqp010_commands(dice, channels=(1,), sizes=(0, 9, 3000))) for peer in (CLIENT, SERVER)
            ]
            found.append((SERVER, method(SessionCompleted(ids((0, dice.randint(0, 20)))))))
        return [*found, *DETACH, *CLOSE]

    counted = []
    for owners in (0, frames):
        staging.frames_a_pump = owners
        async with staged() as stage:
            await play(stage, steps(), Random(seed).randint(100, 5000))
            assert stage.pumps is None or stage.pumps.handed_over > 3
            await close(stage)
            for collect in stage.metrics.before_scrape:
                collect()
            tallies = stage.metrics.tallies["0-10"]
            counts = stage.metrics.messages
            assert counts is not None
            counted.append(
                [list(counts.values), counts.published_bytes.counts, counts.delivered_bytes.counts]
                + [list(each) for tally in tallies.values() for each in (tally.frames, tally.byte_counts)]
            )
    assert counted[0] == counted[1]
