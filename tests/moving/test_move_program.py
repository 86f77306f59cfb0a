"""Moves between two brokers in this process, over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pika
import pytest
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.server import serve
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, QueueReport, Report
from amqproxy.moving.move_program import MoveProgram
from amqproxy.moving.queue_depths import QueueDepth, queue_depths

PROPERTIES = pika.BasicProperties(
    headers={"n": 1, "x-death": [{"queue": "q", "count": 2}]},
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    expiration="600000",
    message_id="m",
    timestamp=5,
    type="t",
    app_id="a",
)


class Pair:
    """The two brokers, and the reports of the moves between them."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self.ports = ports
        self.reports: list[Report] = []

    async def with_channel(self, side: int, do: Callable[[BlockingChannel], Any]) -> Any:
        def run() -> Any:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.ports[side])) as connection:
                return do(connection.channel())

        return await trio.to_thread.run_sync(run)

    async def fill(self, queue: str, count: int, *, side: int = 0, exchange: str = "", key: str = "") -> None:
        def do(channel: BlockingChannel) -> None:
            channel.queue_declare(queue, durable=True)
            if exchange:
                channel.exchange_declare(exchange, "topic")
                channel.queue_bind(queue, exchange, "#")
            for number in range(count):
                channel.basic_publish(exchange, key or queue, b"%d" % number, PROPERTIES)

        await self.with_channel(side, do)

    async def declare(self, *queues: str) -> None:
        await self.with_channel(1, lambda channel: [channel.queue_declare(each, durable=True) for each in queues])

    async def taken(self, queue: str, side: int = 1) -> list[tuple[Any, Any, bytes]]:
        def do(channel: BlockingChannel) -> list[tuple[Any, Any, bytes]]:
            found = []
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(got)
            return found

        return await self.with_channel(side, do)  # type: ignore[no-any-return]

    def program(self, *queues: MovedQueue | str, strict: bool = False) -> MoveProgram:
        ends = [
            MoveEnd(upstream=UpstreamConfig(address=f"127.0.0.1:{port}"), user="guest", password="guest")
            for port in self.ports
        ]
        named = tuple(each if isinstance(each, MovedQueue) else MovedQueue("/", each) for each in queues)
        return MoveProgram(MoveJob(source=ends[0], target=ends[1], queues=named, strict=strict), self.reports.append)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)

    def why_it_waits(self) -> str:
        return next((each.text for each in self.reports[::-1] if isinstance(each, QueueReport)), "")

    def last(self, place: int = 0) -> QueueReport:
        found = [each for each in self.reports if isinstance(each, QueueReport) and each.place == place]
        return found[-1]


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    async with serve(Broker()) as source, serve(Broker()) as target:
        with trio.fail_after(120):
            yield Pair((source, target))


@pytest.mark.parametrize("strict", [False, True])
async def test_all_messages_move_in_order_with_all_that_is_theirs(strict: bool) -> None:
    async with pair() as brokers:
        await brokers.fill("q", 600, exchange="x", key="a.b")
        await brokers.fill("direct", 3)
        await brokers.declare("q", "direct", "empty")
        await brokers.program("q", "direct", "empty", strict=strict).run()
        moved = await brokers.taken("q")
        assert [body for _, _, body in moved] == [b"%d" % number for number in range(600)]
        method, properties, _ = moved[0]
        assert (method.exchange, method.routing_key, method.redelivered) == ("amqproxy.move.q", "a.b", False)
        assert properties == PROPERTIES
        method, properties, _ = (await brokers.taken("direct"))[0]
        assert (method.exchange, method.routing_key, properties) == ("", "direct", PROPERTIES)
        assert await brokers.taken("q", 0) == []
        assert brokers.reports[-1] == JobReport(is_done=True)
        assert (brokers.last().state, brokers.last().moved) == ("empty", 600)
        left = await brokers.with_channel(
            1, lambda channel: channel.exchange_declare("amqproxy.move.q", "direct", auto_delete=True)
        )
        assert left  # the exchange of the move is gone: another one can be declared


async def test_a_queue_that_the_target_lacks_is_waited_for() -> None:
    async with pair() as brokers, trio.open_nursery() as nursery:
        await brokers.fill("q", 3)
        nursery.start_soon(brokers.program("q").run)
        await brokers.until(
            lambda: brokers.reports and isinstance(brokers.reports[-1], QueueReport) and brokers.last().text
        )
        assert "the target has no such queue" in brokers.last().text
        assert (brokers.last().moved, brokers.last().left) == (0, 3)
        await brokers.declare("q")
        await brokers.until(lambda: brokers.reports[-1] == JobReport(is_done=True))
        assert len(await brokers.taken("q")) == 3


async def test_what_cannot_be_moved_is_left_with_the_reason() -> None:
    async with pair() as brokers:
        await brokers.fill("q", 3)
        await brokers.declare("q")
        await brokers.program(MovedQueue("/", "s", "stream"), MovedQueue("/", "gone"), "q").run()
        assert [brokers.last(place).state for place in range(3)] == ["left", "left", "empty"]
        assert "it is a stream" in brokers.last(0).text
        assert "the source has no such queue" in brokers.last(1).text
        assert len(await brokers.taken("q")) == 3


async def test_a_strict_move_waits_for_other_consumers() -> None:
    async with pair() as brokers, trio.open_nursery() as nursery:
        await brokers.fill("q", 3)
        await brokers.declare("q")
        connection = await trio.to_thread.run_sync(
            partial(pika.BlockingConnection, pika.ConnectionParameters("127.0.0.1", brokers.ports[0]))
        )
        await trio.to_thread.run_sync(lambda: connection.channel().basic_consume("q", lambda *_: None))
        nursery.start_soon(brokers.program("q", strict=True).run)
        await brokers.until(
            lambda: brokers.reports and isinstance(brokers.reports[-1], QueueReport) and brokers.last().text
        )
        assert "403" in brokers.last().text
        await trio.to_thread.run_sync(connection.close)
        await brokers.until(lambda: brokers.reports[-1] == JobReport(is_done=True))
        assert [body for _, _, body in await brokers.taken("q")] == [b"0", b"1", b"2"]


async def test_a_broker_that_is_away_is_waited_for() -> None:
    async with pair() as brokers, trio.open_nursery() as nursery:
        source, _ = brokers.ports
        brokers.ports = source, 1
        nursery.start_soon(brokers.program("q").run)
        await brokers.until(lambda: brokers.reports)
        assert "127.0.0.1:1 refused the connection" in str(brokers.reports[0])
        nursery.cancel_scope.cancel()


async def test_depths_are_looked_at_without_a_change() -> None:
    async with pair() as brokers:
        await brokers.fill("q", 3)
        source = brokers.program("q").job.source
        queues = [MovedQueue("/", "none"), MovedQueue("/", "q"), MovedQueue("/", "q")]
        none, *found = await queue_depths(source, queues, 10.0)
        assert (none.messages, none.text.partition(" ")[0]) == (None, "404")
        assert found == [QueueDepth(3, 0), QueueDepth(3, 0)]
        with pytest.raises(ValueError, match=r"127\.0\.0\.1:1 refused the connection"):
            await queue_depths(
                msgspec.structs.replace(source, upstream=UpstreamConfig(address="127.0.0.1:1")), queues, 10.0
            )
