"""A transport whose other end is a broker that a test plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import trio

from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, Method
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.sockets.transport import Transport
from tests.proxy.amqp091.pools.open_connection import BrokerSide, methods_in, open_connection


class PlayedBroker:
    """Opens and closes channels as asked; `requests` are all other methods that it is sent, with their channels."""

    def __init__(self, frame_max: int = 131_072) -> None:
        self.side = BrokerSide(frame_max)
        self._frame_max = frame_max
        self.requests: list[tuple[int, Any]] = []
        self.is_closed = False
        self._output, self._input = trio.open_memory_channel[bytes](1000)

    def write(self, channel: int, method: Method) -> None:
        self._output.send_nowait(self.side.write((channel, method)))

    def hang_up(self) -> None:
        self._output.send_nowait(b"")

    def upstream(self, on_end: Callable[[SharedUpstream, str], None] = lambda upstream, reason: None) -> SharedUpstream:
        return SharedUpstream(self.transport, open_connection(frame_max=self._frame_max), on_end)

    @property
    def transport(self) -> Transport:
        return cast("Transport", self)

    # --- the transport

    def send_now(self, data: bytes) -> int:
        for channel, method in methods_in(self.side.read(data)):
            match method:
                case ChannelOpen():
                    self.write(channel, ChannelOpenOk())
                case ChannelClose():
                    self.write(channel, ChannelCloseOk())
                case _:
                    self.requests.append((channel, method))
        return len(data)

    async def receive(self) -> bytes:
        return await self._input.receive()

    async def reset(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True
