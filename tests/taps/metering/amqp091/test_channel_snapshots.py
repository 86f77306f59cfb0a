"""The snapshot of a running 0-9-1 session is the state that its client sees."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.connection import Connection, ConnectionState
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ConnectionUpdateSecret,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.metering.amqp091.channel_snapshots import MASKED, Amqp091ChannelSnapshots
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from amqproxy.taps.topology.observed_topology import ObservedTopology
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from amqproxy.taps.trace.amqp091.channel_trace import ChannelTrace
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import (
    UNKNOWN_CONSUMER,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    ContentSnapshot,
)
from tests.proxy.stage import OPEN, Actor, Stage, staged
from tests.taps.trace.programs import is_clear, random_program, reads, simulated
from tests.taps.trace.simulation import Simulation
from tests.taps.trace.traced import frames_of

NOW = 1_700_000_000_000_000_000
CONFIRMING = f"""
    {OPEN}
    >> 1: confirm.select
    << 1: confirm.select-ok
"""
PUBLISH = "1: basic.publish, 1: header 1, 1: body 1"


def rules(**config: Any) -> RuleSet:
    return RuleSet([msgspec.convert({"name": "rule"} | config, AnyRule)])


def snapshot(stage: Stage) -> ConnectionSnapshot:
    traffic = stage.session.traffic
    assert traffic is not None
    traffic.recall()
    found = traffic.snapshot(NOW)
    assert found is not None
    assert ConnectionSnapshot.from_bytes(found.to_bytes()) == found
    return found


async def send(actor: Actor, *methods: Method, body: bytes = b"", number: int = 1) -> None:
    """Send methods of a peer, and let the proxy take them."""
    for method in methods:
        actor.say(b"".join(frame.raw for frame in frames_of(number, method, body=body)))
    await wait_all_tasks_blocked()


def tags(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in spans]


def channel(stage: Stage, number: int = 1) -> ChannelSnapshot:
    return next(each for each in snapshot(stage).channels if each.number == number)


async def test_the_handshake_and_idle_channels_are_known(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(OPEN)
        found = snapshot(stage)
        assert (found.protocol, found.is_open, found.requests) == ("0-9-1", True, ())
        assert found.handshake.virtual_host == "/"
        assert found.channels == (ChannelSnapshot(number=1, mode="normal"), ChannelSnapshot(number=2, mode="normal"))


async def test_there_is_none_before_the_connection_is_open(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(">> header\n<< connection.start")
        traffic = stage.session.traffic
        assert traffic is not None
        assert traffic.snapshot(NOW) is None


async def test_open_publishes_are_ranges_with_their_times(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{CONFIRMING}\n>> {PUBLISH}, {PUBLISH}, {PUBLISH}, {PUBLISH}")
        await send(stage.broker, BasicAck(2))
        found = channel(stage)
        assert (found.mode, found.published, found.has_forgotten) == ("confirm", 4, False)
        assert tags(found.unconfirmed) == [(1, 1), (3, 4)]
        assert all(0 <= NOW - each.ts_ns < 60e9 for each in found.unconfirmed)


async def test_consumers_have_the_queue_that_an_empty_name_stood_for(autojump_clock: MockClock) -> None:
    async with staged(topology=ObservedTopology()) as stage:
        await stage.play(OPEN)
        await send(stage.client, QueueDeclare(), BasicConsume(consumer_tag="one", no_ack=True), BasicConsume(queue="q"))
        await send(stage.broker, QueueDeclareOk("chosen"), BasicConsumeOk("one"), BasicConsumeOk("two"))
        found = channel(stage)
        assert found.consumers == (
            ConsumerSnapshot(tag="one", queue="chosen", no_ack=True),
            ConsumerSnapshot(tag="two", queue="q"),
        )
        assert (found.knows_consumers, found.last_queue, found.requests) == (True, "chosen", ())


async def test_what_the_client_has_declared_and_bound_is_known(autojump_clock: MockClock) -> None:
    async with staged(topology=ObservedTopology()) as stage:
        await stage.play(OPEN)
        await send(stage.client, QueueDeclare(durable=True), QueueBind(exchange="e", routing_key="k"))
        await send(stage.broker, QueueDeclareOk("chosen"), QueueBindOk())
        found = snapshot(stage)
        assert [decoded(0, each.method) for each in found.declarations] == [
            QueueDeclare(queue="chosen", durable=True),
            QueueBind(queue="chosen", exchange="e", routing_key="k"),
        ]
        assert found.declarations_left_out == 0
        assert all(abs(each.ts_ns - time.time_ns()) < 60e9 and each.session is None for each in found.declarations)


async def test_without_observed_requests_the_queues_of_consumers_are_unknown(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> 1: basic.consume\n<< 1: basic.consume-ok")
        assert channel(stage).consumers == (ConsumerSnapshot(tag="tag", queue=None),)


async def test_deliveries_are_open_without_their_consumer(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> 1: basic.consume\n<< 1: basic.consume-ok")
        for tag in (1, 2, 3):
            await send(stage.broker, BasicDeliver("tag", tag, False, "", "key"), body=b"x")
        await send(stage.client, BasicAck(2))
        found = channel(stage)
        assert tags(found.unacked) == [(1, 1), (3, 3)]
        assert {each.consumer_tag for each in found.unacked} == {UNKNOWN_CONSUMER}
        assert (found.delivered, found.has_forgotten) == (None, False)


async def test_requests_without_a_reply_are_as_the_client_sent_them(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(OPEN)
        requests = QueueDeclare(queue="q", arguments=Table({"x-max-length": 5})), BasicQos(prefetch_count=7)
        await send(stage.client, *requests)
        found = channel(stage).requests
        assert [(each.sender, each.method) for each in found] == [("client", each.encode()) for each in requests]
        assert all(0 <= NOW - each.ts_ns < 60e9 for each in found)


async def test_secrets_are_masked(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(OPEN)
        await send(stage.client, ConnectionUpdateSecret(b"hunter2", "expired"), number=0)
        found = snapshot(stage)
        assert [each.method for each in found.requests] == [ConnectionUpdateSecret(MASKED, "expired").encode()]
        assert b"guest\0" not in found.to_bytes()


async def test_contents_under_way_are_known_with_their_methods(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> 1: basic.publish, 1: header 5, 1: body 2\n<< 1: basic.deliver")
        client, server = channel(stage).contents
        assert client == ContentSnapshot(sender="client", method=BasicPublish(routing_key="key").encode(), remaining=3)
        assert server.sender == "server"
        assert server.method == BasicDeliver(consumer_tag="tag", delivery_tag=1).encode()
        assert server.remaining is None
        assert channel(stage).published == 0


async def test_publishes_of_a_channel_without_confirms_are_numbered(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> {PUBLISH}, {PUBLISH}, 1: basic.publish, 1: header 5")
        assert channel(stage).published == 2


async def test_a_closing_channel_says_who_closes(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> 1: channel.close 200\n<< 2: channel.close 404")
        assert channel(stage, 1).closing == ("client",)
        assert channel(stage, 2).closing == ("server",)


async def test_a_transaction_leaves_what_is_open_unknown(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n>> 1: tx.select\n<< 1: tx.select-ok\n>> {PUBLISH}")
        found = channel(stage)
        assert (found.mode, found.published, found.unconfirmed, found.has_forgotten) == ("tx", 1, (), True)


async def test_a_meter_that_is_lost_leaves_what_the_legs_know(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{CONFIRMING}\n>> {PUBLISH}, {PUBLISH}")
        stage.session.recall()
        traffic = stage.session.traffic
        assert traffic is not None
        traffic.metered.close()
        found = channel(stage)
        assert (found.mode, found.published, found.unconfirmed, found.has_forgotten) == ("confirm", 2, (), True)


async def test_blocking_has_its_time(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"{OPEN}\n<< connection.blocked")
        await trio.sleep(5)
        assert snapshot(stage).blocked_since_ns == NOW - 5_000_000_000


async def test_held_publishes_come_after_the_snapshot(autojump_clock: MockClock) -> None:
    holding = rules(action="hold", match={"method": "basic.publish"})
    async with staged(rules=holding) as stage:
        await stage.play(f"{CONFIRMING}\n>> {PUBLISH}, {PUBLISH}, 1: basic.publish\nbroker: nothing")
        found = channel(stage)
        assert (found.mode, found.published, found.unconfirmed, found.contents) == ("confirm", 0, (), ())


async def test_a_channel_on_which_other_commands_wait_is_unknown(autojump_clock: MockClock) -> None:
    delaying = rules(action="hold", match={"method": "queue.declare"})
    async with staged(rules=delaying) as stage:
        await stage.play(f"{OPEN}\n>> 1: queue.declare\nbroker: nothing")
        assert channel(stage) == ChannelSnapshot(number=1, knows_consumers=False, has_forgotten=True)
        assert channel(stage, 2).mode == "normal"


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_channels_are_as_a_trace_knows_them_that_has_seen_everything(first: int) -> None:
    compared = 0
    for seed in range(first, first + 20):
        simulation = simulated(random_program(seed))
        if is_clear(simulation):
            compared += compare(simulation)
    assert compared > 100  # channels, between two reads


def compare(simulation: Simulation) -> int:
    """Compare snapshots between two reads with a trace of all; return the number of channels that were compared."""
    trace, meter, compared = Trace(), MessageMeter(MessageCounts()), 0
    connection = Connection(initial_frame_max=0)
    connection.state = ConnectionState.OPEN
    trace.feed_protocol_header(0)
    for sender, ts_ns, frames in reads(simulation.passed):
        data = b"".join(frame.raw for frame in frames)
        trace.feed(sender, frames, ts_ns)
        meter.feed(sender is SERVER, data, ts_ns / 1e9)
        try:
            for frame in frames:
                connection.receive(sender, frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION:
                break
        if connection.state is not ConnectionState.OPEN:
            break
        passage = PassThrough({}, Client(), [])
        for found in Amqp091ChannelSnapshots(connection.channels, passage, meter, {}, 0):
            if found.mode is not None and not found.closing and found.number not in trace.reopened_channels:
                compare_channel(found, trace.channels[found.number])
                compared += 1
    return compared


def compare_channel(found: ChannelSnapshot, known: ChannelTrace) -> None:
    publishes, deliveries, requests = known._publishes, known._deliveries, known._requests
    base = publishes._confirms_from or 0
    assert (found.mode, found.published) == (known._context.mode, publishes.count - base)
    assert not found.requests or found.requests[0].sender == "client"
    pending = requests._pending[CLIENT].in_order() or []
    assert sorted(each.method for each in found.requests) == sorted(each.request.encode() for each in pending)
    assert {each.sender: (each.method, each.remaining) for each in found.contents} == {
        str(peer): (each.method.encode(), each.remaining if each.has_header else None)
        for peer, each in known._contents.items()
    }
    if not found.has_forgotten:
        assert times(found.unconfirmed) == times(publishes._unconfirmed._spans, base)
        assert times(found.unacked) == times(deliveries._unacked._spans)
    assert all(each.tag and requests.consumers.may_have(each.tag) for each in found.consumers)


def times(spans: Iterable[Span], base: int = 0) -> dict[int, int]:
    """The time of each tag, in microseconds."""
    return {tag - base: round(each.ts_ns / 1000) for each in spans for tag in range(each.first, each.last + 1)}
