"""Silence, as seconds pass: only what comes counts, and only where it is read."""

import socket
from contextlib import nullcontext, suppress
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.controls import ConnectionClose as Close010
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ConnectionClose, ConnectionTuneOk
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.config import Limits
from amqproxy.proxy import watchdog
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES
from tests.proxy.amqp010_script import method as method010
from tests.proxy.amqp010_stage import play
from tests.proxy.stage import HANDSHAKE, Actor, Stage, staged
from tests.rules.scene import rule
from tests.transcripts.words import method, octets, words

HEARTBEAT = 60
GONE = 2 * HEARTBEAT
BEAT = method010(ConnectionHeartbeat(), 0)


async def keep_talking(stage: Stage, *, client: bool, broker: bool, seconds: float) -> None:
    """Let each that is alive send a heartbeat in time."""
    for _ in range(int(seconds // (HEARTBEAT / 2))):
        await trio.sleep(HEARTBEAT / 2)
        if client:
            stage.client.perform("heartbeat")
        if broker:
            stage.broker.perform("heartbeat")


@pytest.fixture
def limits() -> Limits:
    return Limits(close_timeout=5.0)


async def test_who_beats_may_stay(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=True, broker=True, seconds=10 * GONE)
        assert not stage.is_over.is_set()
        await stage.play(f"client: {', '.join(['heartbeat'] * 40)}")


async def test_a_silent_client(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        nursery.start_soon(lambda: keep_talking(stage, client=False, broker=True, seconds=GONE))
        await stage.is_over.wait()
        assert GONE < trio.current_time() < GONE + limits.close_timeout + 3
        assert stage.end == ("proxy", "none")
        await stage.play("broker: connection.close 320, EOF")


async def test_a_silent_broker(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        nursery.start_soon(lambda: keep_talking(stage, client=True, broker=False, seconds=GONE))
        await stage.is_over.wait()
        assert stage.end == ("server", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 1
        seen = await stage.client.sees()
        assert seen.endswith("connection.close 320, EOF")


@pytest.mark.parametrize("rules", [None, RuleSet((rule('action = "log"'),))])
async def test_who_beats_in_0_10_may_stay(
    rules: RuleSet | None, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(limits=limits, rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        for _ in range(20):
            await trio.sleep(HEARTBEAT)
            await play(stage, [(CLIENT, BEAT), (SERVER, BEAT)])
        assert not stage.is_over.is_set()


@pytest.mark.parametrize("rules", [None, RuleSet((rule('action = "log"'),))])
async def test_a_silent_client_of_0_10(
    rules: RuleSet | None, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(limits=limits, rules=rules) as stage, staged() as beside:
        await play(stage, [*LOGIN, *ATTACH])
        await play(beside, [*LOGIN, *ATTACH])
        began = trio.current_time()
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        for _ in range(2):
            await trio.sleep(HEARTBEAT - 1)
            await play(stage, [(SERVER, BEAT)])
        await stage.is_over.wait()
        assert GONE < trio.current_time() - began < GONE + limits.close_timeout + 3
        assert stage.end == ("proxy", "none")
        [close] = FrameReader(frame_max=0).feed(stage.broker.look())
        assert close.method == Close010(320, "client missed its heartbeats, of which there is one in 60 s")
        assert stage.client.look() == b""
        await play(beside, MESSAGES)


@pytest.mark.parametrize("rules", [None, RuleSet((rule('action = "log"'),))])
async def test_a_silent_broker_of_0_10(
    rules: RuleSet | None, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(limits=limits, rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        for _ in range(2):
            await trio.sleep(HEARTBEAT - 1)
            await play(stage, [(CLIENT, BEAT)])
        await stage.is_over.wait()
        assert stage.end == ("server", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 1
        [close] = FrameReader(frame_max=0).feed(stage.client.look())
        assert close.method == Close010(320, "upstream missed its heartbeats, of which there is one in 60 s")


async def test_the_broker_of_a_paused_client_of_0_10_gets_heartbeats(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(limits=limits) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        stage.session.pause()
        for _ in range(10):
            stage.client.say(BEAT)
            stage.broker.say(BEAT)
            await trio.sleep(HEARTBEAT)
        assert not stage.is_over.is_set()
        heard = FrameReader(frame_max=0).feed(stage.broker.look())
        assert {each.name for each in heard} == {"connection.heartbeat"}
        assert len(heard) >= 19, "one in half the time"


async def test_a_client_that_is_not_read_is_not_silent(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The broker reads nothing, and so the client is not read: what it sends waits, its heartbeats too."""
    async with staged(HANDSHAKE + ">> 1: channel.open", limits=limits) as stage:
        chunk = octets("1: basic.publish, 1: header 4000, 1: body 4000") * 10
        with suppress(BlockingIOError):
            while stage.client.socket.send(chunk) == len(chunk):
                await wait_all_tasks_blocked()
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=False, broker=True, seconds=10 * GONE)
        assert not stage.is_over.is_set()


async def test_no_heartbeat_agreed_is_no_silence(limits: Limits) -> None:
    async with staged(">> header") as stage:
        looking = watchdog.Watchdog(limits)
        for now in (0.0, 1e9):
            looking.begin_round()
            looking.look(stage.session, now)
        await wait_all_tasks_blocked()
        assert not stage.is_over.is_set()


@pytest.mark.parametrize("peer", ["client", "broker"])
async def test_a_silent_client_is_reset_at_once_so_that_nothing_it_sends_vanishes(
    peer: str, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(HANDSHAKE, limits=limits, tcp=True) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=peer != "client", broker=peer != "broker", seconds=GONE)
        await trio.sleep(2.1)
        actor, other = (stage.client, stage.broker) if peer == "client" else (stage.broker, stage.client)
        assert (await actor.sees()).endswith("RST")
        assert (await other.sees()).endswith("connection.close 320")
        await stage.is_over.wait()


@pytest.mark.parametrize("how", ["EOF", "RST", "connection.close 320"])
async def test_a_silent_client_is_reset_and_named_also_where_the_upstream_closes_first(
    how: str,
    limits: Limits,
    nursery: trio.Nursery,
    log: list[structlog.typing.EventDict],
    autojump_clock: MockClock,
) -> None:
    """RabbitMQ looks every HEARTBEAT seconds, and closes the socket when it has received nothing twice."""
    async with staged(HANDSHAKE, limits=limits, tcp=True) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=False, broker=True, seconds=GONE)
        close = encode_method(0, ConnectionClose(320, "CONNECTION_FORCED - missed heartbeats", 0, 0))
        stage.broker.say(close) if how.endswith("320") else stage.broker.perform(how)
        assert (await stage.client.sees()).endswith("RST")
        assert words(bytes(stage.client.seen)).count("connection.close") == how.count("320")  # and none of our own
        if how.endswith("320"):
            assert "connection.close-ok" in await stage.broker.sees()
        await stage.is_over.wait()
        assert stage.end == ("proxy", "none")
        assert log[-1]["reason"] == f"client missed its heartbeats, of which there is one in {HEARTBEAT} s"
        assert stage.count("upstream_failures_total", reason="lost") == 0


@pytest.mark.parametrize("silent_for", [HEARTBEAT, GONE])
async def test_a_client_that_is_not_silent_too_long_is_closed_when_the_upstream_is_gone(
    silent_for: int, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(HANDSHAKE, limits=limits, tcp=True) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=False, broker=True, seconds=silent_for)
        if silent_for == GONE:
            stage.client.perform("heartbeat")  # just in time, and before a check
            assert await stage.broker.sees() == "heartbeat"
        stage.broker.perform("RST")
        assert (await stage.client.sees()).endswith("connection.close 320")
        stage.client.perform("EOF")
        await stage.is_over.wait()
        assert stage.count("upstream_failures_total", reason="lost") == 1


async def test_of_many_sessions_a_few_are_looked_at_in_a_turn(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    sessions: dict[int, Any] = {
        number: SimpleNamespace(number=number, contained=nullcontext, is_parked=False)
        for number in range(1, 3 * watchdog.SESSIONS_A_TURN + 2)
    }
    monkeypatch.setattr(watchdog.Watchdog, "look", lambda _, session, now: looked_at.append(session.number))
    nursery.start_soon(watchdog.watch, sessions, limits)
    await trio.sleep(watchdog.INTERVAL)
    last = max(sessions)
    seen = [len(looked_at)]
    while len(looked_at) < last - 1:
        await trio.lowlevel.checkpoint()
        seen.append(len(looked_at))
        sessions.pop(last, None)
    assert max(after - before for before, after in pairwise([0, *seen])) <= 2 * watchdog.SESSIONS_A_TURN
    assert looked_at == list(range(1, last))  # and none that has ended since the round began


# ------------------------------------------------------------------------------------- who takes nothing

NO_HEARTBEATS = """
    >> header
    << connection.start
    >> connection.start-ok
"""


async def without_heartbeats(stage: Stage) -> None:
    stage.broker.say(method("connection.tune", channel_max=2047, frame_max=131_072, heartbeat=0))
    await stage.play("client: connection.tune")
    stage.client.say(method("connection.tune-ok", channel_max=2047, frame_max=131_072, heartbeat=0))
    await stage.play("""
        broker: connection.tune-ok
        >> connection.open
        << connection.open-ok
        >> 1: channel.open
        << 1: channel.open-ok
    """)


async def fill(speaker: Actor, words: str) -> None:
    """Say so much that it can only wait to be sent on."""
    chunk = octets(words) * 10
    with suppress(BlockingIOError):
        while speaker.socket.send(chunk) == len(chunk):
            await wait_all_tasks_blocked(speaker.cushion)


DELIVERIES = "1: basic.deliver, 1: header 4000, 1: body 4000"
PUBLISHES = "1: basic.publish, 1: header 4000, 1: body 4000"


@pytest.mark.parametrize("beats", [True, False], ids=["that beats", "without heartbeats"])
async def test_a_client_that_does_not_read_is_reset(
    beats: bool,
    limits: Limits,
    nursery: trio.Nursery,
    log: list[structlog.typing.EventDict],
    autojump_clock: MockClock,
) -> None:
    async with staged(HANDSHAKE + ">> 1: channel.open" if beats else NO_HEARTBEATS, limits=limits, tcp=True) as stage:
        if not beats:
            await without_heartbeats(stage)
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await fill(stage.broker, DELIVERIES)
        nursery.start_soon(partial(keep_talking, stage, client=beats, broker=False, seconds=GONE / 2))
        await trio.sleep(limits.send_timeout - 2)
        assert not stage.is_over.is_set()
        await trio.sleep(5)
        assert (await stage.client.sees()).endswith("RST")
        assert "connection.close 320" in await stage.broker.sees()
        await stage.is_over.wait()
        assert log[-1]["reason"] == "client has taken nothing for 30 s"


async def test_a_client_that_reads_slowly_is_not(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(NO_HEARTBEATS, limits=limits) as stage:
        await without_heartbeats(stage)
        nursery.start_soon(flood, stage.broker.socket, octets(DELIVERIES))
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        for _ in range(5):
            await trio.sleep(limits.send_timeout - 5)
            assert stage.session.client.transport.is_sending
            with suppress(BlockingIOError):
                while stage.client.socket.recv(65536):
                    pass
        assert not stage.is_over.is_set()
        nursery.cancel_scope.cancel()


async def flood(end: socket.socket, data: bytes) -> None:
    """Say it over and over, as fast as it is taken."""
    unsent = data
    while True:
        try:
            unsent = unsent[end.send(unsent) :] or data
        except BlockingIOError:
            await trio.sleep(1)


async def test_a_broker_that_takes_nothing_for_long_is_given_up_only_without_heartbeats(
    limits: Limits, nursery: trio.Nursery, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    """Under an alarm, RabbitMQ does not read from publishers, for as long as that lasts."""
    async with staged(NO_HEARTBEATS, limits=limits, tcp=True) as stage:
        await without_heartbeats(stage)
        await fill(stage.client, PUBLISHES)
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await trio.sleep(limits.upstream_send_timeout - 2)
        assert not stage.is_over.is_set()
        assert limits.upstream_send_timeout - 4 <= stage.session._report.stalled_ns / 1e9
        await trio.sleep(5)
        assert "connection.close 320" in await stage.client.sees()
        await stage.is_over.wait()
        assert log[-1]["reason"] == "upstream has taken nothing for 1800 s"


@pytest.mark.parametrize("agreed", [0, 60])
async def test_a_broker_that_expects_more_heartbeats_gets_them(
    agreed: int, limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The client goes by what it sent, and the broker by what a rule has made of that."""
    clamp = RuleSet([rule('action = "rewrite"\ntune.heartbeat = 10')])
    async with staged(HANDSHAKE.partition(">> connection.tune-ok")[0], limits=limits, rules=clamp) as stage:
        stage.client.say(encode_method(0, ConnectionTuneOk(2047, 131_072, agreed)) + octets("connection.open"))
        await stage.play("<< connection.open-ok")
        legs = stage.session.legs
        assert [legs[peer].connection.heartbeat for peer in (CLIENT, SERVER)] == [agreed, 10]
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        for _ in range(20):
            await trio.sleep(5)
            stage.broker.perform("heartbeat")
        received = await stage.broker.sees()
        assert 18 <= received.split(", ").count("heartbeat") <= 20
        assert not stage.is_over.is_set()
        stage.client.perform("heartbeat")
        await stage.is_over.wait()
        assert stage.count("upstream_failures_total", reason="lost") == 1


async def test_who_beats_as_the_broker_expects_is_not_helped(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        assert not stage.session.owes_heartbeats
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits, stage.silent)
        await keep_talking(stage, client=True, broker=True, seconds=GONE)
        assert (await stage.broker.sees()).split(", ").count("heartbeat") == 4
