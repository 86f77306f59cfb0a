"""A pooled client shares only what its shared connection can carry; the rest goes on a connection of its own."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.frame import BODY, HEADER, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.pools.pooled_transport import PooledTransport
from amqproxy.proxy.amqp091.pools.request_proof import RequestProofs
from amqproxy.proxy.amqp091.pools.scout import Scout
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.proxy.amqp091.pools.sharing import PinReason
from amqproxy.proxy.upstreams.client_pools import Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.sockets.transport import Transport, TransportBroken
from tests.proxy.amqp091.pools.open_connection import methods_in, open_connection
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker
from tests.proxy.session.collector import without_collector

FRAME_MAX = 8192
"""Largest frame of the shared connection; the client may send larger ones."""


async def dial(member: Member) -> tuple[Transport, bytes]:
    raise TransportBroken("a connection of its own")


@pytest.mark.parametrize(("size", "is_shared"), [(4000, True), (10_000, False)])
async def test_a_header_that_fits_no_frame_is_not_shared(size: int, is_shared: bool, autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker.opened(frame_max=FRAME_MAX)
        upstream = broker.upstream()
        nursery.start_soon(upstream.run)
        upstream.flush()
        transport = PooledTransport(
            upstream,
            cast("Member", object()),
            cast("Any", object()),
            PoolConfig(),
            open_connection(),
            Pinning(dial, lambda reason: None),
            lambda reason: None,
            announces_blocking=False,
        )
        await transport.send(encode_method(1, ChannelOpen()))
        table = b"\x01kS" + size.to_bytes(4) + b"x" * size
        header = ContentHeader(0).encode()[:-2] + b"\x20\x00" + len(table).to_bytes(4) + table
        message = encode_method(1, BasicPublish(0, "", "q")) + encode_frame(HEADER, 1, header)
        if is_shared:
            await transport.send(message)
        else:
            with pytest.raises(TransportBroken, match="a connection of its own"):
                await transport.send(message)
        assert bool(broker.of(BasicPublish)) == is_shared
        nursery.cancel_scope.cancel()


CLOSE = ChannelClose(404, "NOT_FOUND - no exchange 'nope' in vhost '/'", 60, 40)
CLOSE_OK = ChannelCloseOk()
BYE = ChannelClose(200, "bye", 0, 0)
QOS = BasicQos(0, 10, False)


class Client:
    """A client of a shared connection; the broker of its own connection, and that of its pool's scout."""

    def __init__(self, upstream: SharedUpstream, nursery: trio.Nursery, **config: Any) -> None:
        self.own, self.tried = ScriptedBroker.opened(), ScriptedBroker.opened()

        async def open_scout() -> SharedUpstream:
            scout = tried.upstream()
            nursery.start_soon(scout.run)
            scout.flush()
            return scout

        tried = self.tried
        self.transport = PooledTransport(
            upstream,
            cast("Member", object()),
            Scout(open_scout, RequestProofs(trio.current_time), 5.0),
            PoolConfig(**config),
            open_connection(),
            Pinning(self._dial, lambda reason: None),
            lambda reason: None,
            announces_blocking=False,
        )
        self._reader = FrameReader(frame_max=0)

    async def _dial(self, member: Member) -> tuple[Transport, bytes]:
        return self.own, encode_method(0, ConnectionOpenOk())

    async def send(self, *methods: tuple[int, Method]) -> None:
        """Send methods on channels in one piece."""
        await self.transport.send(b"".join([encode_method(channel, method) for channel, method in methods]))

    async def told(self, count: int) -> list[tuple[int, Any]]:
        """Return the next methods that the client is sent, with their channels; at least `count`."""
        found: list[tuple[int, Any]] = []
        with trio.fail_after(60):
            while len(found) < count:
                found += methods_in(self._reader.feed(await self.transport.receive()))
        return found


@asynccontextmanager
async def sharing(**config: Any) -> AsyncIterator[tuple[ScriptedBroker, Client, Client]]:
    """Yield a broker, a client of it, and another one beside that, which is told nothing but answers to its own."""
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker.opened()
        upstream = broker.upstream()
        nursery.start_soon(upstream.run)
        upstream.flush()
        client, beside = Client(upstream, nursery, **config), Client(upstream, nursery, **config)
        await beside.send((1, ChannelOpen()), (1, ConfirmSelect()))
        assert await beside.told(2) == [(1, ChannelOpenOk()), (1, ConfirmSelectOk())]
        yield broker, client, beside
        await beside.send((1, BasicPublish(0, "", "q")))
        await beside.transport.send(encode_frame(HEADER, 1, ContentHeader(0).encode()))
        assert await beside.told(1) == [(1, BasicAck(1, False))]
        nursery.cancel_scope.cancel()


async def failed_channel(broker: ScriptedBroker, client: Client) -> None:
    """Open channels 1 and 2, of which the broker closes the second."""
    await client.send((1, ChannelOpen()), (2, ChannelOpen()))
    await client.told(2)
    broker.write(client.transport.channels[2], CLOSE)
    assert await client.told(1) == [(2, CLOSE)]


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_close_that_crosses_the_brokers_is_answered_though_its_client_is_pinned(
    autojump_clock: object, is_late: bool
) -> None:
    async with sharing() as (broker, client, _):
        await failed_channel(broker, client)
        if is_late:
            await client.send((1, QOS))
            await client.send((2, BYE))
        else:
            await client.send((1, QOS), (2, BYE))
        assert (2, CLOSE_OK) in await client.told(1)
        await client.send((2, CLOSE_OK), (2, ChannelOpen()))
        assert await client.told(1) == [(2, ChannelOpenOk())]
        assert client.transport.pinned is PinReason.QOS
        assert [channel for channel, method in client.own.methods if channel == 2] == [2]


async def test_an_answer_that_its_client_is_given_cuts_no_frame_of_the_broker(autojump_clock: object) -> None:
    async with sharing() as (broker, client, _):
        await failed_channel(broker, client)
        await client.send((1, QOS))
        frame = encode_method(1, BasicQosOk())
        told: list[tuple[int, Any]] = []

        async def listen() -> None:
            told.extend(await client.told(2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            client.own.write_bytes(frame[:5])
            await wait_all_tasks_blocked()
            await client.send((2, BYE), (2, CLOSE_OK))
            await wait_all_tasks_blocked()
            client.own.write_bytes(frame[5:])
        assert told == [(2, CLOSE_OK), (1, BasicQosOk())]
        client.own.write_bytes(frame)
        assert await client.told(1) == [(1, BasicQosOk())]


LATE = (1, BasicPublish(0, "", "late"))


@pytest.mark.parametrize("behind", [(), ((2, QOS), LATE)], ids=["shared", "pinned"])
async def test_what_comes_with_a_close_in_one_piece_is_dropped(
    autojump_clock: object, behind: tuple[tuple[int, Method], ...]
) -> None:
    """RabbitMQ 3.10 drops it, and closes the connection for what comes behind close-ok."""
    async with sharing() as (broker, client, _):
        await client.send((1, ChannelOpen()), (2, ChannelOpen()))
        await client.told(2)
        await client.send((1, BYE), LATE, *behind)
        assert (1, CLOSE_OK) in await client.told(1)
        assert client.transport.is_shared == (not behind)
        await client.send((1, ChannelOpen()))
        assert (1, ChannelOpenOk()) in await client.told(1)
        assert LATE[1] not in broker.of(BasicPublish) + client.own.of(BasicPublish)


async def test_a_publish_behind_close_ok_is_answered_by_the_broker(autojump_clock: object) -> None:
    async with sharing() as (_, client, _):
        await client.send((1, ChannelOpen()), (1, BYE))
        await client.told(2)
        with pytest.raises(TransportBroken, match="504 CHANNEL_ERROR"):  # of the fake broker, which is sent the frame
            await client.send(LATE)


async def test_a_channel_may_be_opened_again_in_the_same_piece(autojump_clock: object) -> None:
    async with sharing() as (_, client, _):
        await client.send((1, ChannelOpen()), (1, BYE), LATE, (1, ChannelOpen()))
        assert await client.told(3) == [(1, ChannelOpenOk()), (1, CLOSE_OK), (1, ChannelOpenOk())]
        await client.send((1, BYE), (0, ConnectionClose(200, "bye", 0, 0)))
        assert await client.told(2) == [(1, CLOSE_OK), (0, ConnectionCloseOk())]


async def test_a_client_that_leaves_closes_no_channel_that_has_become_anothers(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    """The number of a closed channel may be given again while what has come with the close is waited for."""
    broker = ScriptedBroker.opened()
    upstream = broker.upstream()
    nursery.start_soon(upstream.run)
    upstream.flush()
    client = Client(upstream, nursery)
    client.tried.unanswered.add(QueueDeclare)
    await client.send((1, ChannelOpen()), (2, ChannelOpen()))
    await client.told(2)
    number, failed = client.transport.channels[1], trio.Event()

    async def close_and_declare() -> None:
        with pytest.raises(TransportBroken, match="has not answered"):
            await client.send((1, BYE), (2, QueueDeclare(queue="q")))
        failed.set()

    nursery.start_soon(close_and_declare)
    await wait_all_tasks_blocked()
    heir = Client(upstream, nursery)
    while heir.transport.channels != {1: number}:
        heir = Client(upstream, nursery)
        await heir.send((1, ChannelOpen()), (1, ConfirmSelect()))
        await heir.told(2)
    assert not failed.is_set()
    await failed.wait()
    await client.transport.aclose()
    await heir.send((1, BasicPublish(0, "", "q")))
    await heir.transport.send(encode_frame(HEADER, 1, ContentHeader(0).encode()))
    assert await heir.told(1) == [(1, BasicAck(1, False))]
    nursery.cancel_scope.cancel()


async def test_what_a_client_leaves_behind_is_sent_and_keeps_its_place_until_then(autojump_clock: object) -> None:
    body = b"x" * 100_000
    message = (
        encode_method(1, BasicPublish(0, "", "q"))
        + encode_frame(HEADER, 1, ContentHeader(len(body)).encode())
        + encode_frame(BODY, 1, body)
    )
    async with sharing() as (broker, client, beside):
        await client.send((1, ChannelOpen()))
        await client.told(1)
        upstream = beside.transport.upstream
        broker.takes_bytes = False
        await client.transport.send(5 * message)
        await client.transport.aclose()
        assert len(upstream.clients) == 1
        assert (upstream.places, upstream.left_bytes > len(message)) == (2, True)
        await wait_all_tasks_blocked()
        broker.takes_bytes = True
        assert (upstream.places, upstream.left_bytes) == (1, 0)
        assert len(broker.of(BasicPublish)) == 5


@pytest.mark.parametrize(
    ("key", "sent"), [("key", QueueBind(0, "q", "amq.direct", "key")), ("", QueueBind(0, "q", "amq.direct", "q"))]
)
async def test_an_empty_name_is_the_queue_that_was_declared_last(
    autojump_clock: object, key: str, sent: QueueBind
) -> None:
    async with sharing() as (_, client, _):
        await client.send((1, ChannelOpen()), (1, QueueDeclare(0, "old")), (1, QueueDeclare(0, "q")))
        await client.told(3)
        await client.send((1, QueueBind(0, "", "amq.direct", key)))
        assert await client.told(1) == [(1, QueueBindOk())]
        assert client.tried.of(QueueBind) == [sent]
        assert client.transport.is_shared


@pytest.mark.parametrize("is_there", [True, False])
async def test_the_queue_that_was_declared_last_is_known_on_a_connection_of_its_own(
    autojump_clock: object, is_there: bool
) -> None:
    """If it is gone, the channel goes on without it, and with its confirms."""
    async with sharing() as (_, client, _):
        client.own.missing = set() if is_there else {"q"}
        await client.send((1, ChannelOpen()), (1, ConfirmSelect()), (1, QueueDeclare(0, "q")))
        assert (await client.told(3))[-1] == (1, QueueDeclareOk("q", 0, 0))
        await client.send((1, BasicPublish(0, "", "q")))
        await client.transport.send(encode_frame(HEADER, 1, ContentHeader(0).encode()))
        assert await client.told(1) == [(1, BasicAck(1, False))]
        await client.send((1, QOS), (1, BasicPublish(0, "", "q")))
        await client.transport.send(encode_frame(HEADER, 1, ContentHeader(0).encode()))
        assert await client.told(1) == [(1, BasicAck(2, False))]
        opening = [ChannelOpen(), ConfirmSelect()]
        again = [] if is_there else [CLOSE_OK, *opening]
        assert [method for _, method in client.own.methods][: 3 + len(again)] == [
            *opening,
            QueueDeclare(0, "q", passive=True),
            *again,
        ]


@pytest.mark.parametrize("is_pinned", [False, True])
async def test_a_client_that_leaves_waits_for_no_garbage_collector(autojump_clock: object, is_pinned: bool) -> None:
    """With hundreds of short-lived clients a second, garbage of each would fill the memory between two collections."""
    async with trio.open_nursery() as nursery:
        upstream = ScriptedBroker.opened().upstream()
        nursery.start_soon(upstream.run)
        upstream.flush()
        with without_collector():
            client = Client(upstream, nursery)
            await client.send((1, ChannelOpen()))
            await client.told(1)
            if is_pinned:
                client.own.write_bytes(encode_method(1, BasicQosOk()))
                async with trio.open_nursery() as directions:
                    directions.start_soon(client.send, (1, QOS))
                    assert await client.told(1) == [(1, BasicQosOk())]
            await client.transport.aclose()
            left = weakref.ref(client.transport)
            del client
            assert left() is None
        nursery.cancel_scope.cancel()
