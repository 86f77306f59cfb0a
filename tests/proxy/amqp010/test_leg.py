"""A leg of 0-10."""

from collections.abc import Callable

import pytest
import structlog
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from amqproxy.amqp010.tally import Tally
from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010 import leg as amqp010_leg
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.session.session import Session
from amqproxy.rules.engine.evaluator import RuleSet
from tests.amqp010.transcript import steps_of
from tests.proxy.amqp010.interception.amqp010_stage import ATTACHING, OPENING
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES, method, transfer
from tests.proxy.amqp010_stage import play
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import staged
from tests.rules.scene import rule

CLOSE_OK = method(ConnectionCloseOk(), 0)


def close(text: str) -> bytes:
    return method(ConnectionClose(320, text), 0)


@pytest.mark.parametrize(("peer", "name"), [(CLIENT, "client"), (SERVER, "upstream")])
def test_it_counts_what_its_peer_sends(peer: Peer, name: str) -> None:
    tallies = {each: Tally() for each in Peer}
    leg = Amqp010Leg(peer, None, tallies)
    assert leg.name == name
    assert leg.reader.tally is tallies[peer]


def test_it_remembers_few_of_the_sessions_that_are_detached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp010_leg, "MOST_RETAINED", 2)
    connection = Amqp010Leg(CLIENT, None).connection
    script = OPENING
    for name in "abc":
        script += ATTACHING.replace("name_=s", f"name_={name}")
        script += f"""
            >> 1 session.request-timeout timeout=60
            << 1 session.timeout timeout=60
            >> 1 session.detach name_={name}
            << 1 session.detached name_={name} code=0
        """
    for step in steps_of(script):
        if step.is_header:
            connection.receive_header(step.sender, step.data)
        else:
            connection.feed(step.sender, step.data)
    assert list(connection.retained) == [b"a", b"b"]


@pytest.mark.parametrize("rules", [RuleSet(()), RuleSet((rule('action = "log"'),))])
@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda session: session.close("bye"), "bye"),
        (lambda session: session.abort("for some reason"), "the proxy is shutting down"),
    ],
)
async def test_both_peers_are_sent_a_close_and_answer(
    how: Callable[[Session], None], text: str, rules: RuleSet, log: list[structlog.typing.EventDict]
) -> None:
    tap = Audience()
    async with staged(tap=tap, rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        how(stage.session)
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
    assert log[-1]["reason"] == (text if text == "bye" else "for some reason")


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


async def test_a_peer_that_closes_at_the_same_time_is_answered() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.close("bye")
        await wait_all_tasks_blocked()
        stage.client.look()
        stage.client.say(close("me too"))
        await wait_all_tasks_blocked()
        assert stage.client.look() == CLOSE_OK
        stage.client.say(CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()


async def test_an_answer_is_known_by_its_bytes_where_frames_are_not() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, (CLIENT, b"\xff" * 20)])
        stage.session.close("bye")
        await wait_all_tasks_blocked()
        assert stage.client.look() == close("bye")
        stage.client.say(b"\xff" * 20 + CLOSE_OK[:5])
        await wait_all_tasks_blocked()
        assert not stage.is_over.is_set()
        stage.client.say(CLOSE_OK[5:])
        await stage.is_over.wait()
