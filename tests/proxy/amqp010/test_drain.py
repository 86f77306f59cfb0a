"""What passes while a session of AMQP 0-10 drains, and when its client is asked to close."""

from __future__ import annotations

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk, SessionCompleted
from amqproxy.amqp010.frame import Frame, encode_frame
from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.drain import Amqp010Drain
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, MESSAGES, ids, method, transfer
from tests.proxy.amqp010_stage import close, names, play, say
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import staged
from tests.rules.scene import rule

ASKED = method(ConnectionClose(320, "the proxy is shutting down"), 0)
CLOSE_OK = method(ConnectionCloseOk(), 0)
BIG = transfer(b"x" * 10_000)
COMPLETED = method(SessionCompleted(ids((0, 0))))
RULES = [RuleSet(()), RuleSet((rule('action = "log"\nmatch.method = "basic.publish"'),))]


@pytest.fixture(params=RULES, ids=["without rules", "with rules"])
def rules(request: pytest.FixtureRequest) -> RuleSet:
    found: RuleSet = request.param
    return found


async def test_at_rest_the_client_is_asked_at_once_and_the_broker_when_it_has_answered(rules: RuleSet) -> None:
    tap = Audience()
    async with staged(tap=tap, rules=rules) as stage, staged() as beside:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES])
        await play(beside, [*LOGIN, *ATTACH])
        stage.session.drain()
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert (stage.client.look(), stage.broker.look()) == (ASKED, b"")
        stage.client.say(BIG + CLOSE_OK)
        await wait_all_tasks_blocked()
        assert stage.broker.look() == ASKED, "what comes behind our close goes no further"
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")
        await play(beside, [*MESSAGES, *DETACH, *CLOSE])
        await close(beside)
    assert tap.seen[-4:] == [
        "server connection.close",
        "client connection.close-ok",
        "client connection.close",
        "server connection.close-ok",
    ]


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_a_message_that_has_begun_goes_on_to_its_end(piece: int, rules: RuleSet) -> None:
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await say(stage.client, BIG[:5000])
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert stage.client.look() == b""
        await say(stage.client, BIG[5000:], piece)
        stage.broker.look()
        assert stage.broker.seen == stage.client.said
        assert stage.client.look() == ASKED
        await say(stage.broker, COMPLETED)
        assert stage.client.look() == b""
        await say(stage.client, CLOSE_OK)
        assert stage.broker.look() == ASKED
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_a_delivery_that_has_begun_goes_on_to_its_end_and_no_other(piece: int, rules: RuleSet) -> None:
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES[:4]])
        await say(stage.broker, BIG[:5000])
        await say(stage.client, BIG[:5000])
        stage.session.drain()
        await say(stage.broker, BIG[5000:] + COMPLETED + transfer(b"more", "d") + COMPLETED, piece)
        stage.client.look()
        assert bytes(stage.client.seen).endswith(BIG + COMPLETED)
        await say(stage.client, BIG[5000:] + transfer(b"too late"), piece)
        stage.client.look()
        assert bytes(stage.client.seen).endswith(BIG + COMPLETED + ASKED)
        await say(stage.client, CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()


async def test_a_close_of_the_clients_that_crosses_ours_is_answered(rules: RuleSet) -> None:
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert stage.client.look() == ASKED
        await say(stage.client, CLOSE[0][1])
        assert stage.client.look() == CLOSE_OK
        await say(stage.client, CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()


async def test_a_client_that_does_not_answer_has_its_time(rules: RuleSet, autojump_clock: MockClock) -> None:
    async with staged(rules=rules, limits=Limits(close_timeout=3.0)) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.drain()
        await stage.is_over.wait()
        assert names(stage.broker.look()) == ["connection.close"]
        assert stage.end == ("proxy", "320")


async def test_what_waits_goes_to_the_broker_first() -> None:
    hold = RuleSet((rule('action = "hold"\nmatch.method = "basic.publish"\ntimeout = 600'),))
    async with staged(rules=hold) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await say(stage.client, transfer(b"held"))
        assert stage.broker.look() == b""
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"held")
        assert stage.client.look() == ASKED
        await say(stage.client, CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()


async def test_it_goes_on_where_rules_are_needed_no_more() -> None:
    """No message begins behind the drain, though what had been paused was the last that needed an interceptor."""
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES[:4]])
        stage.session.pause(1)
        await say(stage.client, BIG)
        await say(stage.broker, BIG[:5000])
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == BIG
        await say(stage.broker, BIG[5000:7000])
        await say(stage.broker, BIG[7000:] + transfer(b"more", "d"))
        stage.client.look()
        assert bytes(stage.client.seen).endswith(BIG + ASKED)
        await say(stage.client, CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()


async def test_before_it_is_open_there_is_nothing_to_complete(rules: RuleSet) -> None:
    async with staged(rules=rules) as stage:
        await play(stage, LOGIN[:3])
        stage.session.drain()
        await stage.is_over.wait()
        assert stage.client.look() == b""


async def test_one_that_closes_by_itself_is_let_go(autojump_clock: MockClock) -> None:
    async with staged(limits=Limits(close_timeout=3.0)) as stage:
        await play(stage, [*LOGIN, CLOSE[0]])
        stage.session.drain()
        await play(stage, CLOSE[1:])
        await close(stage)
        assert stage.end == ("client", "200")


def test_a_control_of_the_servers_that_has_begun_is_not_cut() -> None:
    """Ours would come within it: both are on channel 0."""
    legs = {peer: Amqp010Leg(peer, None) for peer in Peer}  # type: ignore[arg-type]
    readers = {peer: leg.reader for peer, leg in legs.items()}
    whole = COMPLETED[12:]
    begin, rest = encode_frame(14, 0, 0, whole[:5]), encode_frame(13, 0, 0, whole[5:])
    drain = Amqp010Drain(legs[CLIENT], readers)
    assert drain.is_complete
    readers[SERVER].feed(begin)
    assert not drain.is_complete
    assert [drain.passes(SERVER, Frame(each)) for each in (begin, rest)] == [True, True]
    readers[SERVER].feed(rest)
    assert drain.is_complete


@pytest.mark.parametrize("sender", Peer)
async def test_what_is_malformed_behind_our_close_is_no_failure(
    sender: Peer, rules: RuleSet, autojump_clock: MockClock
) -> None:
    async with staged(rules=rules, limits=Limits(close_timeout=3.0)) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.drain()
        await wait_all_tasks_blocked()
        assert stage.client.look() == ASKED
        await say(stage.client if sender is CLIENT else stage.broker, b"\xff" * 20)
        assert stage.broker.look() == b"", "the client has its time to answer"
        if sender is SERVER:
            await say(stage.client, CLOSE_OK)
        await stage.is_over.wait()
        assert stage.broker.look() == ASKED
        assert stage.count("protocol_errors_total", sender=str(sender), code="501") == 0


async def test_what_comes_behind_our_close_is_not_kept(rules: RuleSet) -> None:
    async with staged(rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.drain()
        await wait_all_tasks_blocked()
        for _ in range(3):
            await say(stage.broker, BIG)
        assert stage.session.traffic is not None
        assert [relay.direction.rest for relay in stage.session.traffic._relays] == [b"", b""]
        await say(stage.client, CLOSE_OK)
        stage.broker.say(CLOSE_OK)
        await stage.is_over.wait()
