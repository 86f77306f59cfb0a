"""A pooled client shares only what its shared connection can carry; the rest goes on a connection of its own."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from amqproxy.amqp091.frame import HEADER, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.pools.pooled_transport import PooledTransport
from amqproxy.proxy.upstreams.client_pools import Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.sockets.transport import Transport, TransportBroken
from tests.proxy.amqp091.pools.open_connection import open_connection
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker

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
