"""A client that does not wait for answers in the handshake, however its bytes are cut."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.rules.access.allow import Allow
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.observing.log import Log
from tests.example_count import example_count
from tests.proxy.stage import Stage, staged
from tests.transcripts.words import octets

RULES = {
    "without rules": None,
    "with a rule that lets all pass": RuleSet([Allow(name="all")]),
    "with a rule that looks at all": RuleSet([Log(name="look", level="debug", text="{method}")]),
}
each_ruleset = pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
ALL = "header, connection.start-ok, connection.tune-ok, connection.open, 1: channel.open"


async def answer(stage: Stage) -> None:
    """Play the broker to a client that has sent everything, and takes its answers one by one."""
    await stage.play("""
        broker: header
        << connection.start
        client: connection.start
        broker: connection.start-ok
        << connection.tune
        client: connection.tune
        broker: connection.tune-ok, connection.open, 1: channel.open
        << connection.open-ok, 1: channel.open-ok
        >> 1: basic.publish, 1: header 3, 1: body 3
    """)


@each_ruleset
async def test_all_in_one_write(rules: RuleSet | None) -> None:
    async with staged(rules=rules) as stage:
        stage.client.perform(ALL)
        await answer(stage)


@each_ruleset
async def test_start_ok_tune_ok_and_open_in_one_write(rules: RuleSet | None) -> None:
    async with staged(rules=rules) as stage:
        await stage.play("""
            >> header
            << connection.start
        """)
        stage.client.perform("connection.start-ok, connection.tune-ok, connection.open")
        await stage.play("""
            broker: connection.start-ok
            << connection.tune
            client: connection.tune
            broker: connection.tune-ok, connection.open
            << connection.open-ok
        """)


@settings(max_examples=example_count(20), deadline=None)
@given(cuts=st.lists(st.integers(0, len(octets(ALL))), max_size=6))
def test_however_it_is_cut(cuts: list[int]) -> None:
    def pieces() -> Iterable[bytes]:
        places = sorted({0, *cuts, len(octets(ALL))})
        return [octets(ALL)[one:other] for one, other in pairwise(places)]

    async def converse() -> None:
        async with staged() as stage:
            for piece in pieces():
                stage.client.say(piece)
                await wait_all_tasks_blocked()
            await answer(stage)

    trio.run(converse, clock=MockClock(autojump_threshold=0))


async def test_a_header_that_rabbitmq_takes_passes_as_it_is() -> None:
    async with staged() as stage:
        stage.client.say(b"AMQP\1\1\0\x09")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b"AMQP\1\1\0\x09"
        await stage.play("""
            << connection.start
            >> connection.start-ok
        """)


async def test_what_is_out_of_turn_is_refused_when_its_turn_comes() -> None:
    async with staged(">> header") as stage:
        stage.client.perform("connection.open")
        await stage.play("""
            client: nothing
            broker: nothing
            << connection.start
            broker: EOF
        """)
        assert stage.count("protocol_errors_total", sender="client", code="503") == 1


async def test_a_frame_too_large_is_refused_at_once() -> None:
    async with staged("""
        >> header
        << connection.start
    """) as stage:
        stage.client.say(b"\x01\0\0\xff\xff\xff\xff")
        await stage.play("client: EOF")
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1


@pytest.mark.parametrize("how", ["connection.close 403", "EOF"])
async def test_a_broker_that_ends_it_instead_of_answering(how: str, autojump_clock: MockClock) -> None:
    async with staged(">> header") as stage:
        await stage.play("<< connection.start")
        stage.client.perform("connection.start-ok, connection.tune-ok, connection.open")
        await stage.play("broker: connection.start-ok")
        await stage.play(f"<< {how}")
        stage.client.perform("EOF")
        stage.broker.socket.close()
        with trio.fail_after(1):
            await stage.is_over.wait()
