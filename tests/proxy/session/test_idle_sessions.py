"""Sessions that an idle pump keeps while nothing but heartbeats comes; with what a plain run has, too."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method, every_frame
from amqproxy.amqp091.methods import BasicDeliver, ConnectionTuneOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control.session_entries import connection_entry
from amqproxy.proxy.session import parked_session
from amqproxy.proxy.session.ownership import Owner
from amqproxy.proxy.session.session import Session
from amqproxy.pump import pumps as pumps_module
from amqproxy.pump.pumps import IDLE_AFTER, may_be_idle
from amqproxy.rules.bridge import bridge_rules
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy import stage as staging
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, Stage, staged
from tests.sockets.whole_transport import WholeTransport
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not may_be_idle(), reason="an idle pump needs epoll")

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"


@pytest.fixture(autouse=True)
def idle_pump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", -1)


async def become_idle(stage: Stage, seconds: float = 3 * IDLE_AFTER) -> None:
    await trio.sleep(seconds)
    assert stage.session.is_parked


async def test_heartbeats_pass_and_leave_it_parked(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}")
        assert not stage.session.is_parked
        await become_idle(stage)
        before = connection_entry(stage.session)["bytes"]
        await stage.play(">> heartbeat\n<< heartbeat\n>> heartbeat, heartbeat")
        assert stage.session.is_parked
        assert connection_entry(stage.session)["bytes"] == {
            "client": before["client"] + 24,
            "server": before["server"] + 8,
        }
        assert connection_entry(stage.session)["relayed_by"] == "event loop"
        assert stage.count("frames_total", sender="client", type="heartbeat", method="") == 3
        assert stage.count("connections_pumped") == 0


async def test_a_connection_with_very_many_channels_keeps_its_parts(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked_session, "MAX_PARKED_CHANNELS", 0)
    async with staged(OPEN) as stage:
        for _ in range(3):
            await trio.sleep(3 * IDLE_AFTER)
            assert stage.session.owner is Owner.PUMP
            assert not stage.session.is_parked
            await stage.play(f">> heartbeat\n<< heartbeat\n>> {PUBLISH}\n<< {DELIVER}")
            await trio.sleep(30)


async def test_its_bytes_are_counted_once_however_often_it_is_parked(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        for _ in range(3):
            await stage.play(f">> {PUBLISH}\n<< {DELIVER}")
            await become_idle(stage, 30)
            counted = {"client": len(stage.client.said), "server": len(stage.broker.said)}
            assert connection_entry(stage.session)["bytes"] == counted


ANSWERS = {">> 1: queue.declare": "<< 1: queue.declare-ok", "<< 1: basic.cancel": ">> 1: basic.cancel-ok"}


@pytest.mark.parametrize("lines", [f">> {PUBLISH}", f"<< {DELIVER}", *ANSWERS])
async def test_what_comes_passes_and_it_is_parked_again_later(lines: str, autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        for _ in range(3):
            await become_idle(stage, 30)
            await stage.play(lines)
            assert not stage.session.is_parked
            assert stage.session.owner is Owner.RELAYS
            if lines in ANSWERS:
                await stage.play(ANSWERS[lines])


async def test_what_is_in_the_middle_of_a_content_goes_on(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await stage.play(">> 1: basic.publish, 1: header 9, 1: body 4")
        await become_idle(stage)
        await stage.play(">> heartbeat")
        await stage.play(">> 1: body 5")
        assert stage.count("messages_published_total") == 1
        await become_idle(stage, 30)
        stage.client.perform("1: body 1")
        assert (await stage.client.sees()).startswith("connection.close 505")


async def test_bytes_one_at_a_time(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        data = octets(f"heartbeat, {PUBLISH}, heartbeat")
        for place in range(len(data)):
            stage.client.say(data[place : place + 1])
            await wait_all_tasks_blocked()
            await trio.sleep(2 * IDLE_AFTER)
        stage.broker.look()
        assert bytes(stage.broker.seen).endswith(data)


async def test_a_peer_that_hangs_up(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        stage.client.perform("EOF")
        assert await stage.broker.sees() == "EOF"
        stage.broker.perform("EOF")
        await stage.is_over.wait()


async def test_a_peer_that_takes_nothing_leaves_its_own_heartbeats_waiting(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        ours = stage._ours[1]
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        filled = 0
        while True:
            try:
                filled += ours.send(octets("heartbeat"))
            except BlockingIOError:
                break
        stage.client.say(octets("heartbeat"))
        await wait_all_tasks_blocked()
        assert not stage.session.is_parked
        await stage.play(f"<< {DELIVER}")
        stage.broker.look()
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert len(stage.broker.seen) - filled > 0
        assert bytes(stage.broker.seen[-8:]) == octets("heartbeat")


async def test_a_silent_peer_is_named(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        assert stage.silent(trio.current_time() + 1e6) == [stage.session]
        stage.session.disconnect(CLIENT, "silent")
        await stage.is_over.wait()


ACTS: dict[str, Callable[[Session], object]] = {
    "a tap": lambda session: session.apply_tap(Audience()),
    "a pause": lambda session: session.pause(),
    "a channel closed": lambda session: session.close_channel(1, "x"),
    "a heartbeat": lambda session: session.send_heartbeat(),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
async def test_what_is_done_from_outside_brings_it_back(
    act: Callable[[Session], object], autojump_clock: MockClock
) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        act(stage.session)
        assert stage.session.owner is Owner.RELAYS
        assert not stage.session.is_parked


async def test_what_comes_back_soon_is_kept_later(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(pumps_module.time, "monotonic", lambda: now)
    async with staged(OPEN) as stage:
        for rest in (1, 2, 4, 8):
            await become_idle(stage, 2 * rest * IDLE_AFTER + 0.01)
            await stage.play(f">> {PUBLISH}")
            await trio.sleep(rest * IDLE_AFTER - 0.01)
            assert not stage.session.is_parked
        await become_idle(stage, 40)
        now += 3600
        await stage.play(f">> {PUBLISH}")
        await become_idle(stage, 2 * IDLE_AFTER + 0.01)


async def test_a_session_whose_socket_is_not_lent_stays(autojump_clock: MockClock) -> None:
    async with staged(OPEN, transport=WholeTransport) as stage:
        await trio.sleep(100)
        assert not stage.session.is_parked
        assert stage.session.owner is Owner.RELAYS


async def test_where_the_system_waits_for_no_more_it_stays(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pumps_module.IdlePump, "take", refuse)
    async with staged(OPEN) as stage:
        await trio.sleep(100)
        assert not stage.session.is_parked
        await stage.play(f">> {PUBLISH}\n<< {DELIVER}")


async def test_a_client_of_small_frames_keeps_its_interceptor_when_the_bridge_goes(autojump_clock: MockClock) -> None:
    """Rules raised frame_max for the broker; the reload that takes them away comes before the connection is open."""
    before, opening = [line.strip() for line in OPEN.strip().splitlines()][:4], "\n".join(OPEN.split("tune-ok, ")[1:])
    async with staged("\n".join(before), rules=RuleSet((), bridging=bridge_rules("rabbitmq-4"))) as stage:
        stage.client.say(encode_method(0, ConnectionTuneOk(2047, 4096, 60)))
        await wait_all_tasks_blocked()
        assert stage.broker.look() == encode_method(0, ConnectionTuneOk(2047, 8192, 60))
        stage.session.apply_rules(RuleSet(()))
        await stage.play(f">> {opening}")
        await trio.sleep(3 * IDLE_AFTER)
        content = Command(1, BasicDeliver("c", 1), Properties(), bytes(8000)).encode(8192)
        stage.broker.say(content)
        await wait_all_tasks_blocked()
        sizes = [frame.length() for frame in every_frame(stage.client.look(), 0)]
        assert sizes[2:] == [4096, 8000 - 4088 + 8]
