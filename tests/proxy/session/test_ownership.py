"""Every way of a connection over to a pump, and back: in transcripts, with a pump that the event loop turns."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.control.session_entries import channel_entries, connection_entry
from amqproxy.proxy import watchdog
from amqproxy.proxy.session.ownership import OWNERSHIP_TRANSITIONS, Owner, Ownership, OwnershipEvent
from amqproxy.proxy.session.session import Session
from amqproxy.pump.pumps import are_available
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.sockets.transport import LEAST_READ
from tests.proxy import stage as staging
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, Stage, staged
from tests.pump.rig import settle
from tests.transcripts.words import octets

needs_pump = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"


@pytest.fixture(autouse=True)
def most_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pump keeps a connection for as long as it may."""
    monkeypatch.setattr(staging, "frames_a_pump", 1_000_000)


def owner(stage: Stage) -> Owner:
    return stage.session.owner


@asynccontextmanager
async def pumped(**options: Any) -> AsyncIterator[Stage]:
    """A session that a pump relays."""
    async with staged(OPEN, **options) as stage:
        await stage.play(f">> {PUBLISH}\n<< heartbeat")
        assert owner(stage) is Owner.PUMP
        yield stage
        stage.client.socket.close()
        with trio.fail_after(1000):
            await stage.is_over.wait()


def test_every_owner_has_its_row() -> None:
    assert set(OWNERSHIP_TRANSITIONS) == set(Owner)
    assert {event for row in OWNERSHIP_TRANSITIONS.values() for event in row} == set(OwnershipEvent)


@needs_pump
async def test_a_session_in_its_steady_state_is_handed_over(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        assert stage.pumps is not None
        before = stage.pumps.handed_over
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}\n>> heartbeat\n<< 1: basic.ack")
        assert owner(stage) is Owner.PUMP
        assert stage.pumps.handed_over == before


BACK = [">> 1: queue.declare\n<< 1: queue.declare-ok", "<< 1: basic.cancel", ">> 3: channel.open"]


@needs_pump
@pytest.mark.parametrize("line", BACK)
async def test_a_method_brings_it_back_and_what_comes_next_hands_it_over(line: str, autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        assert stage.pumps is not None
        before = stage.pumps.handed_over
        await stage.play(f"{line}\n>> {PUBLISH}\n<< heartbeat\n>> heartbeat\n<< heartbeat")
        assert owner(stage) is Owner.PUMP
        assert stage.pumps.handed_over > before


@needs_pump
async def test_an_error_is_answered_as_without_a_pump(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        await stage.play("""
            >> 1: basic.publish, 1: body 5
            broker: 1: basic.publish, connection.close 320
            client: connection.close 505
            << connection.close-ok
            client: nothing
            >> connection.close-ok
            client: EOF
            broker: EOF
        """)


@needs_pump
@pytest.mark.parametrize("peer", ["client", "broker"])
async def test_a_peer_that_hangs_up(peer: str, autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        (stage.client if peer == "client" else stage.broker).perform("EOF")
        await wait_all_tasks_blocked()
        assert owner(stage) is Owner.RELAYS
        if peer == "client":
            stage.broker.perform("EOF")


@needs_pump
@pytest.mark.parametrize("peer", ["client", "broker"])
async def test_a_peer_that_resets(peer: str, autojump_clock: MockClock) -> None:
    async with pumped(tcp=True) as stage:
        (stage.client if peer == "client" else stage.broker).perform("RST")
        seen = await (stage.broker if peer == "client" else stage.client).sees()
        assert seen.startswith("connection.close 320" if peer == "broker" else "EOF")
        assert owner(stage) is Owner.RELAYS


def _apply_rule(session: Session) -> None:
    session.apply_rules(RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x"}, AnyRule)]))


RECALLS: dict[str, Callable[[Session], object]] = {
    "rules": _apply_rule,
    "a tap": lambda session: session.apply_tap(Audience()),
    "a pause": lambda session: session.pause(),
    "a drain": lambda session: session.drain(),
    "an operator who closes a channel": lambda session: session.close_channel(1, "x"),
    "a heartbeat of ours": lambda session: session.send_heartbeat(),
}


@needs_pump
@pytest.mark.parametrize("act", RECALLS.values(), ids=RECALLS.keys())
async def test_what_is_done_from_outside_brings_it_back_with_all_that_was_on_its_way(
    act: Callable[[Session], object], autojump_clock: MockClock
) -> None:
    async with pumped() as stage:
        whole = octets(PUBLISH)
        stage.client.say(whole[:-3])
        await stage.broker.sees()
        act(stage.session)
        assert owner(stage) is Owner.RELAYS
        assert stage.session.client.connection.state == "open"
        stage.client.say(whole[-3:])
        await wait_all_tasks_blocked()
        if stage.session.is_paused:
            stage.session.resume()
        await stage.broker.sees()
        assert whole * 2 in bytes(stage.broker.seen).replace(octets("heartbeat"), b"")


@needs_pump
async def test_a_heartbeat_of_ours_waits_until_no_pump_sends(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        session = stage.session
        session._is_beating = True  # as since a moment before the hand-over
        session.recall()
        await stage.play(f">> {PUBLISH}\n<< heartbeat")
        assert owner(stage) is Owner.PUMP
        assert session._nursery is not None
        session._nursery.start_soon(session._send_heartbeat)
        await stage.play("broker: heartbeat")
        assert owner(stage) is Owner.RELAYS


@needs_pump
async def test_what_is_cancelled_ends_with_its_own_sockets(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        stage.session.close("enough")
        await wait_all_tasks_blocked()
        assert owner(stage) is Owner.RELAYS
        assert await stage.client.sees() == "connection.close 320"


@needs_pump
async def test_what_is_known_of_a_session_is_up_to_date(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        before = connection_entry(stage.session)["bytes"]
        await stage.play(f">> {PUBLISH}, 1: basic.publish\n<< {DELIVER}")
        assert owner(stage) is Owner.PUMP
        after = connection_entry(stage.session)["bytes"]
        assert after[str(CLIENT)] - before[str(CLIENT)] == len(octets(f"{PUBLISH}, 1: basic.publish"))
        assert after[str(SERVER)] - before[str(SERVER)] == len(octets(DELIVER))
        [entry] = [entry for entry in channel_entries([stage.session]) if entry["channel"] == 1]
        assert entry["messages"][str(CLIENT)] == 3
        assert entry["open_content"][str(CLIENT)] == "basic.publish"
        assert stage.count("messages_published_total") == 2
        assert stage.count("messages_delivered_total") == 1
        assert stage.count("frames_total", sender=str(CLIENT), type="method", method="basic.publish") == 3


@needs_pump
async def test_rules_and_taps_keep_it_from_a_pump(autojump_clock: MockClock) -> None:
    rules = RuleSet([msgspec.convert({"name": "r", "action": "log", "text": "x"}, AnyRule)])
    for options in ({"rules": rules}, {"tap": Audience()}):
        async with staged(OPEN, **options) as stage:  # type: ignore[arg-type]
            await stage.play(f">> {PUBLISH}\n<< heartbeat\n>> {PUBLISH}\n<< heartbeat")
            assert owner(stage) is Owner.RELAYS


@needs_pump
async def test_what_is_unsent_is_sent_where_the_connection_is_back_before_the_offering_relay_goes_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", 3)
    data = octets("1: basic.publish, 1: header 120000, 1: body 120000")
    handed_over: list[Ownership] = []
    move = Ownership._move

    def move_and_pump(self: Ownership, event: OwnershipEvent) -> None:
        move(self, event)
        if event is OwnershipEvent.HAND_OVER and not handed_over:
            handed_over.append(self)
            self._park = lambda handover: False
            assert stage.pumps is not None
            stage._ours[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            stage.client.say(data)
            stage.broker.say(octets("heartbeat"))  # the fourth frame
            settle(stage.pumps._pumps[0])
            assert self.owner is Owner.RELAYS

    async with staged(OPEN) as stage:
        monkeypatch.setattr(Ownership, "_move", move_and_pump)
        while not handed_over:
            stage.client.say(octets("heartbeat"))
            await stage.broker.sees()
        with trio.move_on_after(200):
            while not bytes(stage.broker.seen).endswith(data):
                await stage.broker.sees()
                await trio.sleep(1)
        assert bytes(stage.broker.seen).endswith(data)
        assert "heartbeat" in await stage.client.sees()


@needs_pump
async def test_a_client_is_not_silent_while_the_broker_takes_nothing(autojump_clock: MockClock) -> None:
    """The pump has given the connection back since nothing of it could be sent on: the client is not read from."""
    async with pumped() as stage, trio.open_nursery() as nursery:
        data = octets("1: basic.publish, 1: header 4000, 1: body 4000")
        while owner(stage) is Owner.PUMP:
            stage.client.say(data)
            await wait_all_tasks_blocked()
        assert stage.session.legs[SERVER].transport.is_sending
        nursery.start_soon(watchdog.watch, {1: stage.session}, stage.limits, stage.silent)
        for _ in range(10):
            await trio.sleep(30)
            stage.client.perform("heartbeat")
            stage.broker.perform("heartbeat")
        assert not stage.is_over.is_set()
        assert "heartbeat" in await stage.client.sees()
        await stage.broker.sees()
        nursery.cancel_scope.cancel()


@needs_pump
async def test_a_client_is_not_listened_to_where_the_connection_could_not_be_handed_over(
    autojump_clock: MockClock,
) -> None:
    async with pumped() as stage:
        stage.session.recall()
        await wait_all_tasks_blocked()
        stage._ours[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        size = 7 * LEAST_READ  # three reads, each of them full, and the last one with the end of the frame
        size -= len(octets("1: basic.publish, 1: header 100000")) + 8
        stage.client.say(octets(f"1: basic.publish, 1: header {size}, 1: body {size}"))
        await wait_all_tasks_blocked()
        assert stage.session.legs[SERVER].transport.is_sending
        assert not stage.session.legs[CLIENT].transport.is_listening
        await stage.broker.sees()


def _rules_for(user: str) -> RuleSet:
    source = {"name": "r", "action": "log", "text": "x", "match": {"user": user}}
    return RuleSet([msgspec.convert(source, AnyRule)])


@needs_pump
async def test_rules_for_other_clients_do_not_keep_it_from_a_pump(autojump_clock: MockClock) -> None:
    async with pumped(rules=_rules_for("other")) as stage:
        assert stage.session.interceptor is None
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}\n>> 3: channel.open\n<< 3: channel.open-ok")
        stage.session.apply_rules(_rules_for("another"))
        assert owner(stage) is Owner.RELAYS
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}\n>> heartbeat\n<< heartbeat")
        assert owner(stage) is Owner.PUMP


@needs_pump
async def test_rules_that_could_have_acted_once_keep_it_from_a_pump(autojump_clock: MockClock) -> None:
    async with pumped() as stage:
        for rules in (_rules_for("guest"), _rules_for("other"), RuleSet(())):
            stage.session.apply_rules(rules)
            await stage.play(f">> {PUBLISH}\n<< {DELIVER}\n>> heartbeat\n<< heartbeat")
            assert owner(stage) is Owner.RELAYS


@needs_pump
async def test_what_an_operator_has_done_to_a_channel_keeps_it_from_a_pump(autojump_clock: MockClock) -> None:
    async with pumped(rules=_rules_for("other")) as stage:
        stage.session.pause(1)
        stage.session.resume(1)
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}\n>> heartbeat\n<< heartbeat")
        assert owner(stage) is Owner.RELAYS


@needs_pump
async def test_what_comes_back_soon_is_handed_over_less_and_less_often(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pumped() as stage:
        assert stage.pumps is not None
        stage.pumps.most_chunks = 1024
        for _ in range(5):
            await stage.play(">> 1: queue.declare\n<< 1: queue.declare-ok")
        stage.session.recall()
        mine = stage.session.traffic.ownership
        assert mine is not None
        assert mine._patience > 1
        assert mine._chunks <= mine._patience
