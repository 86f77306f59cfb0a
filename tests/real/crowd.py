"""Many clients of 0-9-1 in one thread, each of which connects again at once when it has lost its connection."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table

PAUSE = 0.05
"""Seconds before another attempt."""


class Crowd(threading.Thread):
    """`size` clients of a port; `open` is how many have an open connection, `codes` the replies of their closes."""

    def __init__(self, port: int, size: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.size = size
        self.open = 0
        self.attempts = 0
        self.codes: list[int] = []
        self._is_over = False
        self._loop = asyncio.new_event_loop()
        self._clients: set[_Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        for _ in range(self.size):
            self._begin()
        self._loop.run_forever()
        self._loop.run_until_complete(self._leave())
        self._loop.close()

    async def _leave(self) -> None:
        """Close all sockets, also those that are being connected."""
        self._is_over = True
        connecting = list(self._tasks)
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        while self._clients:
            for each in self._clients:
                each.transport.abort()
            await asyncio.sleep(0)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join(30)

    def _begin(self) -> None:
        if not self._is_over:
            task = self._loop.create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        while True:
            self.attempts += 1
            with suppress(OSError):
                _, client = await self._loop.create_connection(lambda: _Client(self), "127.0.0.1", self.port)
                self._clients.add(client)
                return
            await asyncio.sleep(PAUSE)

    def lost(self, client: _Client) -> None:
        self._clients.discard(client)
        self.open -= client.is_open
        if not self._is_over:
            self._loop.call_later(PAUSE, self._begin)


class _Client(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._reader = FrameReader()
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(HEADER)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._take(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._crowd.lost(self)

    def _take(self, frame: Frame) -> None:
        method = frame.method
        if isinstance(method, ConnectionStart):
            self._send(ConnectionStartOk(Table(()), "PLAIN", b"\0guest\0guest", "en_US"))
        elif isinstance(method, ConnectionTune):
            self._send(ConnectionTuneOk(method.channel_max, method.frame_max, 0), ConnectionOpen("/"))
        elif isinstance(method, ConnectionOpenOk):
            self.is_open = True
            self._crowd.open += 1
        elif isinstance(method, ConnectionClose):
            self._crowd.codes.append(method.reply_code)
            self._send(ConnectionCloseOk())
            self.transport.close()

    def _send(self, *methods: Method) -> None:
        self.transport.write(b"".join([encode_method(0, each) for each in methods]))
