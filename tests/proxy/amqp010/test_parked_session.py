"""Sessions of AMQP 0-10 of which next to nothing is kept while a pump, or an idle pump, has their connection."""

from __future__ import annotations

import gc
from collections.abc import Callable

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import (
    ConnectionHeartbeat,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    SessionCompleted,
)
from amqproxy.control.session_entries import channel_entries, connection_entry, consumer_entries
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.session.ownership import Owner
from amqproxy.proxy.session.relay import Relay
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.pump.pumps import IDLE_AFTER, are_available, may_be_idle
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.proxy import stage as staging
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, MESSAGES, Step, ids, method, transfer
from tests.proxy.amqp010_stage import close, names, play
from tests.proxy.recording_tap import Audience
from tests.proxy.session.collector import without_collector
from tests.proxy.stage import Stage, staged

BEAT = method(ConnectionHeartbeat(), 0)
BEATS: list[Step] = [(CLIENT, BEAT), (SERVER, BEAT)]
PUBLISH = transfer(b"hello")
RULES = RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x"}, AnyRule)])
OTHERS = RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x", "match": {"user": "other"}}, AnyRule)])


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(-1, id="idle pump", marks=pytest.mark.skipif(not may_be_idle(), reason="it needs epoll")),
        pytest.param(
            1_000_000,
            id="pump",
            marks=pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled"),
        ),
    ],
)
def pump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", request.param)


def kept() -> int:
    """How many things there are that only sessions have which are not parked."""
    return sum(isinstance(each, (Relay, SessionParts)) for each in gc.get_objects())


async def become_idle(stage: Stage, seconds: float = 30) -> None:
    await trio.sleep(seconds)
    assert stage.session.is_parked


async def test_a_connection_that_is_idle_keeps_no_task_and_no_parts(autojump_clock: MockClock) -> None:
    with without_collector():
        before = kept()
        async with staged() as stage:
            await play(stage, [*LOGIN, *ATTACH])
            stage.session.recall()
            await wait_all_tasks_blocked()
            while_open = trio.lowlevel.current_statistics().tasks_living
            await become_idle(stage, 3 * IDLE_AFTER)
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living == while_open - 1
            assert kept() == before
            assert stage.session.owner is Owner.PUMP


async def test_what_can_be_seen_of_it_is_the_same_and_is_not_kept(autojump_clock: MockClock) -> None:
    async with staged(topology=ObservedTopology()) as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES, (SERVER, method(SessionCompleted(ids((4, 4)))))])
        session = stage.session
        shown = connection_entry(session), list(channel_entries([session])), list(consumer_entries([session]))
        assert shown[1][0]["session_name"] == "s"
        assert shown[2][0]["queue"] == "q"
        await become_idle(stage)
        session.refresh()
        before = kept()
        for _ in range(3):
            entry = connection_entry(session) | {"relayed_by": shown[0]["relayed_by"]}
            assert (entry, list(channel_entries([session])), list(consumer_entries([session]))) == shown
            assert session.is_open
            assert session.has_open_channel(1)
            assert not session.has_open_channel(2)
            assert session.paused_channels == []
        session.refresh()
        assert kept() == before
        assert session.is_parked
        assert stage.count("messages_published_total") == 3


async def test_no_parts_are_made_to_see_that_nothing_waits(autojump_clock: MockClock) -> None:
    with without_collector():
        async with staged() as stage:
            await play(stage, [*LOGIN, *ATTACH])
            await become_idle(stage)
            before = kept()
            assert stage.session.interceptor is None
            assert stage.session.paused_channels == []
            assert not stage.session.is_paused
            assert kept() == before


async def test_it_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    tap = Audience()
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        for _ in range(3):
            await become_idle(stage)
            await play(stage, [*BEATS, (CLIENT, PUBLISH), (SERVER, transfer(b"x", "d")), *BEATS])
        await become_idle(stage)
        stage.session.apply_tap(tap)
        await play(stage, [(CLIENT, PUBLISH + method(ExecutionSync()))])
        assert tap.seen[-1] == "client execution.sync #4", "ids are known"
        stage.session.apply_tap(None)
        await become_idle(stage)
        await play(stage, [*DETACH, *ATTACH])
        await become_idle(stage)
        await play(stage, [*DETACH, *CLOSE])
        await close(stage)
        assert stage.end == ("client", "200")
        assert stage.count("messages_published_total") == 4
        assert stage.count("channels_opened_total") == 2
        assert stage.count("channels") == 0


@pytest.mark.parametrize("size", [1, 7])
async def test_bytes_that_come_in_small_pieces(size: int, autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        data = BEAT + PUBLISH + BEAT + method(ExecutionSync())
        for start in range(0, len(data), size):
            stage.client.say(data[start : start + size])
            await wait_all_tasks_blocked()
            await trio.sleep(IDLE_AFTER)
        await wait_all_tasks_blocked()
        assert stage.broker.look() == data
        assert stage.count("messages_published_total") == 1
        await become_idle(stage, 1000)


async def test_what_is_in_the_middle_of_a_command_goes_on(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        message = transfer(b"a" * 10_000)
        for start in range(0, len(message), 5000):
            stage.client.say(message[start : start + 5000])
            await trio.sleep(100)
        assert stage.broker.look() == message
        assert stage.count("messages_published_total") == 1
        assert stage.count("protocol_errors_total", sender="client", code="501") == 0


ENDS: dict[str, Callable[[Session], object]] = {
    "a drain": lambda session: session.drain(),
    "an operator": lambda session: session.close("enough"),
    "an abort": lambda session: session.abort("enough"),
}


@pytest.mark.parametrize("act", ENDS.values(), ids=ENDS.keys())
async def test_it_can_be_ended(act: Callable[[Session], object], autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        act(stage.session)
        assert not stage.session.is_parked
        await wait_all_tasks_blocked()
        assert names(stage.client.look()) == ["connection.close"]
        stage.client.socket.close()
        with trio.fail_after(1000):
            await stage.is_over.wait()


WAKES: dict[str, Callable[[Session], object]] = {
    "a tap": lambda session: session.apply_tap(Audience()),
    "a pause": lambda session: session.pause(),
    "a session that an operator pauses": lambda session: session.pause(1),
    "a session that an operator closes": lambda session: session.close_channel(1, "x"),
    "rules": lambda session: session.apply_rules(RULES),
    "a heartbeat of ours": lambda session: session.send_heartbeat(),
}


@pytest.mark.parametrize("act", WAKES.values(), ids=WAKES.keys())
async def test_what_is_done_from_outside_brings_it_back(
    act: Callable[[Session], object], autojump_clock: MockClock
) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        act(stage.session)
        assert stage.session.owner is Owner.RELAYS
        assert not stage.session.is_parked


async def test_rules_for_other_clients_leave_it_parked_once_they_are_known(autojump_clock: MockClock) -> None:
    async with staged(rules=OTHERS) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        await play(stage, MESSAGES)
        await become_idle(stage)
        stage.session.apply_rules(RULES)
        await play(stage, BEATS)
        await trio.sleep(100)
        assert not stage.session.is_parked
        stage.session.apply_rules(OTHERS)
        await play(stage, BEATS)
        await become_idle(stage)
        assert stage.count("messages_published_total") == 3


@pytest.mark.parametrize("rules", [None, OTHERS])
async def test_who_has_said_only_when_challenged_who_it_is_stays_known(
    rules: RuleSet | None, autojump_clock: MockClock
) -> None:
    challenged = [
        (CLIENT, method(ConnectionStartOk(mechanism="PLAIN"), 0)),
        (SERVER, method(ConnectionSecure(b""), 0)),
        (CLIENT, method(ConnectionSecureOk(b"\0guest\0hidden"), 0)),
    ]
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN[:2], *challenged, *LOGIN[3:], *ATTACH])
        await trio.sleep(100)
        await play(stage, BEATS)
        assert stage.session.known.user == "guest"


async def test_a_peer_that_hangs_up(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        stage.client.perform("EOF")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b""
        assert stage.broker.ending == "EOF"
        stage.broker.perform("EOF")
        await stage.is_over.wait()


async def test_a_silent_peer_is_named(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await become_idle(stage)
        assert stage.silent(trio.current_time() + 1e6) == [stage.session]
        stage.session.disconnect(CLIENT, "silent")
        await stage.is_over.wait()


async def test_what_is_under_way_keeps_its_parts(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, DETACH[0]])
        await trio.sleep(100)
        assert not stage.session.is_parked
        await play(stage, [DETACH[1]])
        await become_idle(stage)
