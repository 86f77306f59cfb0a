"""Sessions of AMQP 0-10 with rules: what each peer gets, and how the connection ends."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionException, ExecutionSync, QueueDeclare
from amqproxy.amqp010.controls import ConnectionCloseOk, SessionDetach, SessionDetached
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.interceptor import Amqp010Interceptor
from amqproxy.proxy.interception.delayed_commands import TURN
from amqproxy.proxy.leg import QUANTUM_FRAMES, Leg
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, MESSAGES, Step, method, transfer
from tests.proxy.amqp010_stage import names
from tests.proxy.recording_tap import Audience
from tests.proxy.session.collector import without_collector
from tests.proxy.stage import CUSHION, Stage, staged
from tests.rules.scene import rule

PUBLISH = 'match.method = "basic.publish"\n'
REFUSE = f'action = "refuse"\n{PUBLISH}match.exchange = "secret"\n'


async def play(stage: Stage, steps: list[Step], piece: int = 1 << 20) -> None:
    """Pass on each step, in pieces; what comes out must be the same."""
    for sender, data in steps:
        assert await said(stage, sender is CLIENT, data, piece) == data


async def said(stage: Stage, is_client: bool, data: bytes, piece: int = 1 << 20) -> bytes:
    """What the other peer gets for what one says."""
    for start in range(0, len(data), piece):
        (stage.client if is_client else stage.broker).say(data[start : start + piece])
        await wait_all_tasks_blocked()
    return (stage.broker if is_client else stage.client).look()


async def close(stage: Stage) -> None:
    stage.client.perform("EOF")
    stage.broker.perform("EOF")
    await stage.is_over.wait()


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_what_no_rule_is_about_passes_as_it_came(piece: int) -> None:
    rules = RuleSet([rule(REFUSE), rule('name = "body"\naction = "refuse"\nmatch.body = "none"')])
    tap = Audience()
    async with staged(rules=rules, tap=tap) as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES, *DETACH, *CLOSE], piece)
        await close(stage)
        assert stage.end == ("client", "200")
    assert "client message.transfer #1" in tap.seen
    assert "server connection.start" in tap.seen


async def test_a_refused_command_ends_its_session_and_is_counted() -> None:
    rules = RuleSet([rule(REFUSE)])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert names(await said(stage, True, transfer(b"hello", "secret"))) == ["session.detach"]
        assert names(stage.client.look()) == ["execution.exception", "session.detach"]
        assert rules.counts()["r"].verdicts == {"refused": 1}
        assert stage.count("channel_closes_total", by="server", code="403") == 1
        stage.client.say(method(SessionDetached(b"s", 0)))
        stage.broker.say(method(SessionDetached(b"s", 0)))
        await wait_all_tasks_blocked()
        await play(stage, [*ATTACH, (CLIENT, transfer(b"hello", "public")), *CLOSE])
        await close(stage)
        assert stage.end == ("client", "200")


async def test_a_rule_closes_the_connection_for_both_peers() -> None:
    rules = RuleSet([rule(f'action = "fault"\n{PUBLISH}fault = {{kind = "close", code = 320, scope = "connection"}}')])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert names(await said(stage, True, transfer(b"hello"))) == ["connection.close"]
        assert names(stage.client.look()) == ["connection.close"]
        stage.client.say(method(ConnectionCloseOk(), 0))
        stage.broker.say(method(ConnectionCloseOk(), 0))
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


async def test_a_peer_that_does_not_answer_the_close_is_not_waited_for(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(f'action = "fault"\n{PUBLISH}fault = {{kind = "close", code = 320, scope = "connection"}}')])
    async with staged(rules=rules, limits=Limits(close_timeout=5)) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await said(stage, True, transfer(b"hello"))
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


@pytest.mark.parametrize("wrong", [b"\xff" * 20, method(ConnectionCloseOk(), 0)])
async def test_what_cannot_be_read_does_not_pass(wrong: bytes, autojump_clock: MockClock) -> None:
    async with staged(rules=RuleSet([rule(REFUSE)])) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        got = await said(stage, True, method(ExecutionSync()) + wrong + transfer(b"hello"))
        assert names(got) == ["execution.sync", "connection.close"]
        assert names(stage.client.look()) == ["connection.close"]
        await stage.is_over.wait()
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1


async def test_the_answer_to_a_close_is_known_behind_what_cannot_be_read(autojump_clock: MockClock) -> None:
    async with staged(rules=RuleSet([rule(REFUSE)]), limits=Limits(close_timeout=30)) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await said(stage, True, b"\xff" * 20)
        began = trio.current_time()
        for actor in (stage.client, stage.broker):
            actor.say(method(ConnectionCloseOk(), 0))
        await wait_all_tasks_blocked()
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert trio.current_time() - began < 1


async def test_who_has_answered_for_what_cannot_be_read_need_not_hang_up_first(autojump_clock: MockClock) -> None:
    async with staged(rules=RuleSet([rule(REFUSE)]), limits=Limits(close_timeout=5)) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await said(stage, True, method(ConnectionCloseOk(), 0))
        began = trio.current_time()
        for actor in (stage.client, stage.broker):
            actor.say(method(ConnectionCloseOk(), 0))
            await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.ending == "EOF"
        stage.broker.perform("EOF")
        await wait_all_tasks_blocked()
        stage.client.look()
        assert stage.client.ending == "EOF"
        await stage.is_over.wait()
        assert trio.current_time() == began


@pytest.mark.parametrize("ending", ["close", "violation", "reset"])
async def test_nothing_of_a_session_that_is_over_waits_for_the_garbage_collector(
    ending: str, autojump_clock: MockClock
) -> None:
    def parts() -> int:
        return sum(isinstance(each, (Traffic, Leg, Amqp010Interceptor)) for each in gc.get_objects())

    with without_collector():
        before = parts()
        async with staged(rules=RuleSet([rule(REFUSE)]), tcp=True) as stage:
            await overheard(stage, LOGIN[:1])
            assert parts() == before + 4
            if ending == "reset":
                stage.client.perform("RST")
            else:
                await overheard(stage, [*LOGIN[1:], *(CLOSE if ending == "close" else [(CLIENT, b"\xff" * 20)])])
                stage.client.perform("EOF")
            await wait_all_tasks_blocked(CUSHION)
            stage.broker.perform("EOF")
            await stage.is_over.wait()
            del stage.session
            await wait_all_tasks_blocked()
            assert parts() == before


async def overheard(stage: Stage, steps: list[Step]) -> None:
    """Have each step said, whatever comes out of it."""
    for sender, data in steps:
        (stage.client if sender is CLIENT else stage.broker).say(data)
        await wait_all_tasks_blocked(CUSHION)


async def test_delayed_commands_go_on_when_their_time_has_come(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(f'action = "fault"\n{PUBLISH}fault = {{kind = "delay", seconds = 3}}')])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.client.say(transfer(b"hello"))
        await trio.sleep(2.9)
        assert stage.broker.look() == b""
        await trio.sleep(0.2)
        assert stage.broker.look() == transfer(b"hello")
        await play(stage, CLOSE)
        await close(stage)


async def test_what_waits_goes_on_when_the_client_is_gone(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(f'action = "hold"\n{PUBLISH}timeout = 600')])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert await said(stage, True, transfer(b"hello")) == b""
        stage.client.perform("EOF")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"hello")
        stage.broker.perform("EOF")
        await stage.is_over.wait()


SYNC = method(ExecutionSync(sync=True))
HOLD = f'action = "hold"\n{PUBLISH}timeout = 600'
BACKLOG = 300


async def with_a_backlog(stage: Stage) -> bytes:
    """A command that is held, and many behind it; what the broker is to get of them."""
    await play(stage, [*LOGIN, *ATTACH])
    assert await said(stage, True, transfer(b"hello") + SYNC * BACKLOG) == b""
    stage.broker.seen = b""
    return transfer(b"hello") + SYNC * BACKLOG


async def test_a_backlog_that_goes_on_leaves_others_their_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = RuleSet([rule(HOLD)])
    async with staged(rules=rules) as stage:
        backlog = await with_a_backlog(stage)
        sent: list[tuple[int, bytes]] = []
        turns = 0
        transport = stage.session.legs[SERVER].transport

        class Counted:
            def __getattr__(self, name: str) -> object:
                return getattr(transport, name)

            async def send(self, data: bytes | memoryview) -> None:
                sent.append((turns, bytes(data)))
                await transport.send(data)

        monkeypatch.setattr(stage.session.legs[SERVER], "transport", Counted())
        monkeypatch.setattr("amqproxy.proxy.turns.QUANTUM", 0.0)
        stage.session.release(1, None, "released")
        while len(stage.broker.seen) < len(backlog):
            await trio.lowlevel.checkpoint()
            turns += 1
            stage.broker.look()
        assert max(len(data) for _, data in sent) <= len(transfer(b"hello")) + TURN * len(SYNC)
        assert len({turn for turn, _ in sent}) > 1, "other tasks have run in between"
        assert stage.broker.seen == backlog
        await play(stage, CLOSE)
        await close(stage)


async def test_a_drain_waits_for_all_that_it_releases(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(HOLD)])
    async with staged(rules=rules) as stage:
        backlog = await with_a_backlog(stage)
        stage.session.drain()
        assert stage.client.look() == b""
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen == backlog
        assert names(stage.client.look()) == ["connection.close"]
        stage.client.say(method(ConnectionCloseOk(), 0))
        stage.client.perform("EOF")
        await stage.is_over.wait()


async def test_a_drain_while_a_backlog_goes_on(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(HOLD)])
    async with staged(rules=rules) as stage:
        backlog = await with_a_backlog(stage)
        stage.session.release(1, None, "released")
        stage.session.drain()
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen == backlog
        assert names(stage.client.look()) == ["connection.close"]
        stage.session.abort("enough")
        await stage.is_over.wait()


@pytest.mark.parametrize("is_released", [False, True])
async def test_the_end_of_a_client_waits_for_all_that_it_releases(
    autojump_clock: MockClock, *, is_released: bool
) -> None:
    rules = RuleSet([rule(HOLD)])
    async with staged(rules=rules) as stage:
        backlog = await with_a_backlog(stage)
        if is_released:
            stage.session.release(1, None, "released")
        stage.client.perform("EOF")
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen == backlog
        assert stage.broker.ending == "EOF"


async def test_a_client_that_is_reset_while_its_backlog_goes_on(autojump_clock: MockClock) -> None:
    rules = RuleSet([rule(HOLD)])
    async with staged(rules=rules) as stage:
        backlog = await with_a_backlog(stage)
        stage.session.release(1, None, "released")
        stage.session.disconnect(CLIENT, "is silent")
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen.startswith(backlog)


async def test_a_flood_under_a_rule_is_looked_at_by_few_commands_at_a_time(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("amqproxy.proxy.turns.QUANTUM", 0.0)
    rules = RuleSet([rule(REFUSE)])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.broker.seen = b""
        count = 400
        stage.client.say(SYNC * count)
        sizes = []
        while len(stage.broker.seen) < count * len(SYNC):
            await trio.lowlevel.checkpoint()
            got = stage.broker.look()
            sizes += [len(got)] if got else []
        assert max(sizes) <= 2 * QUANTUM_FRAMES * len(SYNC)
        assert stage.broker.seen == SYNC * count
        stage.client.look()
        await wait_all_tasks_blocked()
        await play(stage, CLOSE)
        await close(stage)


async def test_a_held_command_is_released() -> None:
    rules = RuleSet([rule(f'action = "hold"\n{PUBLISH}timeout = 600')])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await said(stage, True, transfer(b"hello"))
        holder = stage.session.interceptor
        assert holder is not None
        [number] = holder.waiting
        with pytest.raises(KeyError):
            stage.session.release(number + 1, None)
        stage.session.release(number, None, "released")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"hello")
        await play(stage, CLOSE)
        await close(stage)


async def test_faults_of_the_byte_stream() -> None:
    rules = RuleSet([rule('action = "fault"\nfault = {kind = "reset"}\nmatch.method = "queue.declare"')])
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.client.say(method(QueueDeclare("q")))
        await stage.is_over.wait()


async def test_other_rules_apply_from_then_on() -> None:
    async with staged(rules=RuleSet([rule(REFUSE)])) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.apply_rules(stage.session._rules.replaced([rule('action = "refuse"\nmatch.queue = "q"')]))
        await play(stage, [(CLIENT, transfer(b"hello", "secret"))])
        assert names(await said(stage, True, method(QueueDeclare("q")))) == ["session.detach"]
        stage.session.abort("enough")
        await stage.is_over.wait()


async def test_the_text_of_a_refusal_is_the_rules() -> None:
    async with staged(rules=RuleSet([rule(REFUSE + 'text = "no {exchange}"')])) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await said(stage, True, transfer(b"hello", "secret"))
        [exception, detach] = FrameReader(frame_max=0).feed(stage.client.look())
        assert Assembly.received([exception]).method == ExecutionException(403, 0, 4, 1, None, "no secret")
        assert detach.method == SessionDetach(b"s")
        stage.session.abort("enough")
        await stage.is_over.wait()
