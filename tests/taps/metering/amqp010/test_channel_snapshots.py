"""The snapshot of a running 0-10 session is the state that its client sees."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExecutionSync,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    TxSelect,
)
from amqproxy.amqp010.controls import SessionAttach, SessionAttached, SessionCommandPoint, SessionCompleted
from amqproxy.amqp010.methods import Method
from amqproxy.amqp091 import methods
from amqproxy.peer import CLIENT, SERVER
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_topology import ObservedTopology
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import (
    UNKNOWN_CONSUMER,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    ContentSnapshot,
)
from tests.proxy.amqp010_script import ATTACH, LOGIN, ids, method, transfer
from tests.proxy.amqp010_stage import play, say
from tests.proxy.stage import Stage, staged
from tests.rules.scene import rule

NOW = 1_700_000_000_000_000_000
OPEN = [*LOGIN, *ATTACH]


def snapshot(stage: Stage) -> ConnectionSnapshot:
    stage.session.recall()
    traffic = stage.session.traffic
    assert traffic is not None
    found = traffic.snapshot(NOW)
    assert found is not None
    assert ConnectionSnapshot.from_bytes(found.to_bytes()) == found
    return found


def channel(stage: Stage, number: int = 1) -> ChannelSnapshot:
    return next(each for each in snapshot(stage).channels if each.number == number)


def tags(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in spans]


def payload(command: Method) -> bytes:
    return method(command)[12:]


async def test_the_handshake_and_an_idle_session_are_known(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, OPEN)
        found = snapshot(stage)
        assert (found.protocol, found.is_open, found.handshake.user) == ("0-10", True, "guest")
        assert found.handshake.client_properties == {"product": "tests"}
        assert b"hidden" not in found.to_bytes()
        [session] = found.channels
        assert session == ChannelSnapshot(number=1, mode="normal", published=-1, delivered=-1, name=session.name)
        assert session.name


async def test_open_transfers_are_ranges_of_positions(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, OPEN)
        await play(stage, [(CLIENT, b"".join(transfer(b"m") for _ in range(4)))])
        await play(stage, [(SERVER, method(SessionCompleted(ids((1, 1)))))])
        found = channel(stage)
        assert (found.published, tags(found.unconfirmed), found.has_forgotten) == (3, [(0, 0), (2, 3)], False)
        assert all(0 <= NOW - each.ts_ns < 60e9 for each in found.unconfirmed)


async def test_deliveries_are_open_without_their_subscription(autojump_clock: MockClock) -> None:
    async with staged(topology=ObservedTopology()) as stage:
        subscribe = MessageSubscribe("queue", "tag", 0, 0)
        await play(stage, [*OPEN, (CLIENT, method(subscribe))])
        await play(stage, [(SERVER, transfer(b"d", "tag") + transfer(b"d", "tag"))])
        found = channel(stage)
        assert (found.delivered, tags(found.unacked)) == (1, [(0, 1)])
        assert {each.consumer_tag for each in found.unacked} == {UNKNOWN_CONSUMER}
        assert (found.consumers, found.knows_consumers) == ((ConsumerSnapshot(tag="tag", queue="queue"),), True)
        [request] = found.requests
        assert (request.sender, request.number, request.method) == ("client", 0, payload(subscribe))
        assert 0 <= NOW - request.ts_ns < 60e9
        await play(stage, [(SERVER, method(SessionCompleted(ids((0, 0)))))])
        found = channel(stage)
        assert (found.consumers, found.requests) == ((ConsumerSnapshot(tag="tag", queue="queue"),), ())


async def test_what_the_client_has_declared_and_bound_is_told_in_0_9_1_words(autojump_clock: MockClock) -> None:
    async with staged(topology=ObservedTopology()) as stage:
        declare, bind = QueueDeclare("q", durable=True), ExchangeBind("q", "e", "k")
        await play(stage, [*OPEN, (CLIENT, method(declare) + method(bind))])
        assert snapshot(stage).declarations == ()
        await play(stage, [(SERVER, method(SessionCompleted(ids((0, 1)))))])
        assert [decoded(0, each.method) for each in snapshot(stage).declarations] == [
            methods.QueueDeclare(queue="q", durable=True),
            methods.QueueBind(queue="q", exchange="e", routing_key="k"),
        ]


async def test_large_requests_are_left_out(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        large = QueueDeclare("q" * 255, "x" * 255, passive=True)
        await play(stage, [*OPEN, (CLIENT, method(large) + method(ExecutionSync()))])
        assert [each.method for each in channel(stage).requests] == [payload(ExecutionSync())]


async def test_contents_under_way_are_known_with_their_methods(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, OPEN)
        first = method(MessageTransfer("x", 0, 0))
        begun = bytes([first[0] & ~4]) + first[1:]  # more segments follow
        await play(stage, [(CLIENT, begun)])
        found = channel(stage)
        assert found.contents == (ContentSnapshot(sender="client", method=payload(MessageTransfer("x", 0, 0))),)
        assert (found.published, found.unconfirmed) == (0, ())


async def test_a_transaction_leaves_what_is_open_unknown(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, [*OPEN, (CLIENT, method(TxSelect()) + transfer(b"m"))])
        found = channel(stage)
        assert (found.mode, found.published, found.unconfirmed, found.has_forgotten) == ("tx", 1, (), True)


async def test_a_session_that_was_attached_before_is_unknown(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, LOGIN)
        await play(stage, [(CLIENT, method(SessionAttach(b"s")) + method(SessionCommandPoint(7, 0)))])
        await play(stage, [(SERVER, method(SessionAttached(b"s")) + method(SessionCommandPoint(0, 0)))])
        assert channel(stage) == ChannelSnapshot(number=1, knows_consumers=False, has_forgotten=True, name=b"s")


async def test_without_a_meter_only_the_names_of_sessions_are_known(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await play(stage, OPEN)
        stage.session.recall()
        traffic = stage.session.traffic
        assert traffic is not None
        traffic.metered.close()
        found = channel(stage)
        assert (found.mode, found.has_forgotten, found.knows_consumers) == (None, True, False)
        assert found.name


@pytest.mark.parametrize("is_followed", [False, True])
async def test_held_publishes_come_after_the_snapshot(autojump_clock: MockClock, *, is_followed: bool) -> None:
    holding = RuleSet([rule('action = "hold"\nmatch.method = "basic.publish"\n')])
    async with staged(rules=holding) as stage:
        await play(stage, OPEN)
        await say(stage.client, transfer(b"held") + transfer(b"queued"))
        assert stage.broker.look() == b""
        if is_followed:
            await say(stage.client, method(ExecutionSync()))
        found = channel(stage)
        expected = (None, 0, ()) if is_followed else ("normal", -1, ())
        assert (found.mode, found.published, found.unconfirmed) == expected
