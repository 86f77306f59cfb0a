"""The toy protocol runs through session, rules, taps, recorder and drain, with nothing added outside its folder."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.peer import SERVER
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.tap import Tap
from tests.proxy import stage as stages
from tests.proxy.stage import Stage
from tests.proxy.toy.protocol import HEADER, NAME
from tests.proxy.toy.traffic import ToyTraffic
from tests.rules.scene import rule

MATCH = 'match.method = "basic.publish"\n'


@asynccontextmanager
async def toy(*rules: str, tap: Tap | None = None) -> AsyncIterator[Stage]:
    """A session that speaks the toy protocol, opened."""
    stage = Stage(tap=tap, rules=RuleSet([rule(text) for text in rules]))
    stage.session._dialects = {NAME: ToyTraffic}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.run)
        stage.client.say(HEADER)
        assert await heard(stage.client) == ""
        assert stage.broker.look() == HEADER
        assert await say(stage, "0 HELLO joe") == "0 HELLO joe\n"
        assert await answer(stage, "0 WELCOME") == "0 WELCOME\n"
        yield stage
        nursery.cancel_scope.cancel()
    assert stage.is_closed
    assert stage.count("channels") == 0
    stage.client.socket.close()
    stage.broker.socket.close()


async def heard(actor: stages.Actor) -> str:
    await wait_all_tasks_blocked()
    return actor.look().decode()


async def say(stage: Stage, line: str) -> str:
    """Have the client say a line; return what the broker hears."""
    stage.client.say(line.encode() + b"\n")
    return await heard(stage.broker)


async def answer(stage: Stage, line: str) -> str:
    """Have the broker say a line; return what the client hears."""
    stage.broker.say(line.encode() + b"\n")
    return await heard(stage.client)


async def test_lines_pass_as_they_came_until_both_have_closed() -> None:
    async with toy() as stage:
        assert await say(stage, "1 PUB orders k hello\n2 PUB orders k") == "1 PUB orders k hello\n2 PUB orders k\n"
        assert await answer(stage, "1 MSG q k hi") == "1 MSG q k hi\n"
        assert stage.session.has_open_channel(1)
        assert stage.count("channels") == 2
        await say(stage, "0 BYE 200 done")
        await answer(stage, "0 BYE-OK")
    assert stage.end == ("client", "200")


async def test_a_rule_changes_refuses_and_holds() -> None:
    rewrite = f'action = "rewrite"\n{MATCH}match.exchange = "a"\nrouting_key = "new"\n'
    refuse = f'action = "refuse"\n{MATCH}match.exchange = "b"\nscope = "channel"\n'
    hold = f'action = "hold"\n{MATCH}match.exchange = "c"\ntimeout = 60\n'
    async with toy(rewrite, refuse, hold) as stage:
        assert await say(stage, "1 PUB a k x") == "1 PUB a new x\n"
        assert await say(stage, "2 PUB b k x") == "2 CLOSE 403 closed\n"
        assert (await heard(stage.client)).startswith("2 CLOSE 403 ACCESS_REFUSED")
        assert await say(stage, "1 PUB c k x\n1 PUB d k y") == ""
        [number] = stage.session.interceptor.waiting
        stage.session.release(number, None)
        assert await heard(stage.broker) == "1 PUB c k x\n1 PUB d k y\n"
        assert stage.session.interceptor.share.used == 0


async def test_a_delay_ends_by_its_timer(autojump_clock: MockClock) -> None:
    async with toy(f'action = "fault"\n{MATCH}fault = {{kind = "delay", seconds = 5}}\n') as stage:
        stage.client.say(b"1 PUB a k x\n")
        await trio.sleep(4)
        assert stage.broker.look() == b""
        await trio.sleep(2)
        assert stage.broker.look() == b"1 PUB a k x\n"


async def test_an_operator_pauses_and_closes_a_channel() -> None:
    async with toy() as stage:
        await say(stage, "1 PUB a k x")
        stage.session.pause(1)
        assert await say(stage, "1 PUB a k y\n2 PUB a k z") == "2 PUB a k z\n"
        stage.session.resume(1)
        assert await heard(stage.broker) == "1 PUB a k y\n"
        stage.session.close_channel(1, "enough")
        assert await heard(stage.client) == "1 CLOSE 406 enough\n"


async def test_a_drain_completes_the_body_that_has_begun() -> None:
    async with toy() as stage:
        assert await answer(stage, "1 MSG q k +") == "1 MSG q k +\n"
        stage.session.drain()
        assert stage.session.phase is SessionState.DRAINING
        assert await answer(stage, "1 MORE text\n1 END\n2 MSG q k late") == (
            "1 MORE text\n1 END\n0 BYE 320 CONNECTION_FORCED - the proxy is shutting down\n"
        )
        await say(stage, "0 BYE-OK")
    assert stage.end == ("proxy", "320")


async def test_what_is_no_line_ends_it_for_both() -> None:
    async with toy() as stage:
        await say(stage, "no line")
        assert (await heard(stage.client)).startswith("0 BYE 501 FRAME_ERROR")


async def test_taps_and_a_recorder_see_the_lines() -> None:
    queue = EntryQueue(1 << 20)
    tap = RecorderTap(queue, lambda number, size: None, lambda frames: None)
    rewrite = f'action = "rewrite"\n{MATCH}routing_key = "new"\n'
    async with toy(rewrite, tap=tap) as stage:
        await say(stage, "1 PUB a k x")
        await answer(stage, "1 MSG q k hi")
    entries = [(entry.sender, entry.data, entry.note.rules) for entry in queue.take(math.inf)]
    assert (SERVER, b"1 MSG q k hi\n", ()) in entries
    assert (SERVER.other, b"1 PUB a new x\n", ("r",)) in entries
