"""How a session of 0-10 ends that the proxy ends."""

from __future__ import annotations

import pytest
import structlog
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from amqproxy.config import Limits
from amqproxy.peer import CLIENT
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES, method, transfer
from tests.proxy.amqp010_stage import play
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import staged

CLOSE_OK = method(ConnectionCloseOk(), 0)


def close(text: str) -> bytes:
    return method(ConnectionClose(320, text), 0)


@pytest.mark.parametrize("how", ["drain", "close"])
async def test_both_peers_are_sent_a_close_and_answer(how: str, log: list[structlog.typing.EventDict]) -> None:
    tap = Audience()
    text = "drained" if how == "drain" else "bye"
    async with staged(tap=tap) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.drain() if how == "drain" else stage.session.close("bye")
        await wait_all_tasks_blocked()
        assert stage.client.look() == stage.broker.look() == close(text)
        stage.client.say(MESSAGES[0][1] + CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert stage.broker.look() == b""
    assert sorted(tap.seen[-4:]) == [
        "client connection.close",
        "client connection.close-ok",
        "server connection.close",
        "server connection.close-ok",
    ]
    assert log[-1]["reason"] == text


async def test_one_that_does_not_answer_has_its_time(autojump_clock: MockClock) -> None:
    async with staged(limits=Limits(close_timeout=3.0)) as stage:
        await play(stage, LOGIN)
        stage.session.close("bye")
        await stage.is_over.wait()
        assert stage.client.look() == close("bye")


async def test_within_a_frame_only_what_was_whole_has_gone_on() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.client.say(transfer(b"x" * 5000)[:5000])
        await wait_all_tasks_blocked()
        stage.session.close("bye")
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert stage.broker.look() == transfer(b"x" * 5000)[: -(5000 - 4084 + 12)] + close("bye")


async def test_what_is_no_more_read_gets_none() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, (CLIENT, b"\xff" * 20)])
        stage.session.close("bye")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b"", "its end could be within a frame"
        assert stage.client.look() == close("bye")
        stage.client.perform("EOF")
        await stage.is_over.wait()


async def test_before_it_is_open_there_is_nothing_to_close() -> None:
    async with staged() as stage:
        await play(stage, LOGIN[:3])
        stage.session.close("bye")
        await stage.is_over.wait()
        assert stage.client.look() == b""
