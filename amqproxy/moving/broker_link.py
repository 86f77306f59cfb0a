"""A connection to a broker with one channel, for a move."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import HEARTBEAT, HEARTBEAT_FRAME, METHOD, Frame
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionStartOk,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.moving.message_forwarder import CHANNEL
from amqproxy.proxy.broker_login import open_connection, send_close
from amqproxy.sockets.transport import Transport, TransportBroken

OPEN_TIMEOUT = 15.0
"""Seconds for a broker to open connection and channel."""

CLOSE_TIMEOUT = 2.0
"""Seconds for a broker to answer connection.close."""

LEAST_SILENCE = 30.0
"""Seconds of silence after which a broker with a shorter heartbeat interval, or none, counts as gone."""

ANSWER_TIMEOUT = 60.0
"""Seconds for a broker to answer a request. Heartbeats are not an answer."""

NO_ANSWER = "a broker does not answer"

Answer = TypeVar("Answer", bound=Method)

Dial = Callable[[], Awaitable[Transport]]


class ChannelRefused(Exception):
    """The broker has closed the channel or the connection in answer to a request, with this reply code and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class BrokerLink:
    """An open connection with the channel `CHANNEL`. One task receives, any may send whole frames."""

    def __init__(self, transport: Transport, connection: Connection) -> None:
        self.server_properties: Mapping[str, Any] = {}
        self._transport = transport
        self._connection = connection
        self._lock = trio.Lock()

    @property
    def frame_max(self) -> int:
        """The agreed limit of frames in bytes, 0 for none."""
        return self._connection.frame_max

    async def send(self, data: bytes) -> None:
        """Send whole frames."""
        if data:
            async with self._lock:
                await self._transport.send(data)

    async def receive(self) -> list[Frame]:
        """Return the next frames; raise `TransportBroken` after a long silence."""
        interval = self._connection.heartbeat
        with trio.move_on_after(max(2 * interval, LEAST_SILENCE) if interval else math.inf) as patience:
            data = await self._transport.receive()
        if patience.cancelled_caught:
            raise TransportBroken("the broker is silent")
        if not data:
            raise TransportBroken("closed by the broker")
        return self._connection.feed(SERVER, data)

    async def receive_answer(self) -> list[Frame]:
        """Return the next frames after a request; raise `TooSlowError` if only heartbeats come for long."""
        with trio.fail_after(ANSWER_TIMEOUT):
            while True:
                frames = await self.receive()
                if not frames or any(frame.kind != HEARTBEAT for frame in frames):  # none: a part of a large frame
                    return frames

    async def request(self, method: Method, times: int = 1) -> None:
        """Send a method on the channel, as often as said at once."""
        await self.send(b"".join([self._connection.send(CLIENT, CHANNEL, method) for _ in range(times)]))

    async def ask(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a method and return its answer, when nothing else is received.

        Raise `ChannelRefused` if it fails, `TooSlowError` if the answer takes long.
        """
        with trio.fail_after(ANSWER_TIMEOUT):
            await self.request(method)
            while True:
                for frame in await self.receive():
                    if frame.kind != METHOD:
                        continue
                    found = frame.method
                    if isinstance(found, answer):
                        return found
                    if isinstance(found, ChannelClose | ConnectionClose):
                        raise ChannelRefused(found.reply_code, found.reply_text)

    async def renew_channel(self) -> None:
        """Open the channel again after the broker has closed it."""
        await self.request(ChannelCloseOk())
        await self.ask(ChannelOpen(), ChannelOpenOk)

    async def close_channel(self) -> None:
        """Close the channel, which returns its unacknowledged messages, and open it again."""
        await self.ask(ChannelClose(200, "the run is over"), ChannelCloseOk)
        await self.ask(ChannelOpen(), ChannelOpenOk)

    async def send_heartbeats(self) -> None:
        """Send heartbeats until cancelled."""
        interval = self._connection.heartbeat / 2 or math.inf
        while True:
            await trio.sleep(interval)
            await self.send(HEARTBEAT_FRAME)


@asynccontextmanager
async def open_link(
    dial: Dial, start: ConnectionStartOk, vhost: str, *, ended: str = "the move is over", heartbeat: int = 0
) -> AsyncIterator[BrokerLink]:
    """Return a link within the block, which is closed with the text `ended` at its end.

    With a `heartbeat`, that or the broker's shorter one is the interval in seconds.

    Raise `Unreachable`, one of `LOST`, or `ChannelRefused` if none can be opened.
    """
    transport = await dial()
    connection = Connection()
    try:
        link = BrokerLink(transport, connection)
        with trio.fail_after(OPEN_TIMEOUT):
            greeting = await open_connection(transport, connection, start, vhost, heartbeat=heartbeat)
            link.server_properties = greeting.server_properties
            await link.ask(ChannelOpen(), ChannelOpenOk)
        yield link
    finally:
        with trio.CancelScope(shield=True):
            await send_close(transport, connection, ended, CLOSE_TIMEOUT)
            await transport.aclose()
