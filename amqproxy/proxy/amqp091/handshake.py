"""Paced reception of a client's handshake, frame by frame: RabbitMQ answers each before it reads the next."""

from __future__ import annotations

import trio

from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.amqp091.transitions import ConnectionState
from amqproxy.proxy.amqp091.leg import Amqp091Leg

_SERVER_ANSWERS = frozenset({ConnectionState.GREETED, ConnectionState.ANSWERED})
"""States in which the server sends the next method."""

_LASTS = _SERVER_ANSWERS | {ConnectionState.STARTED, ConnectionState.CHALLENGED, ConnectionState.TUNED}
"""States before tune-ok, after which a client may send without waiting."""

_PREFIX = 7
"""Bytes of a frame header, before the payload."""


class PacedHandshake:
    """Receiver for a client that may send start-ok, tune-ok and more without waiting for the replies.

    `receive` is used like a transport's; call `note_answer` whenever the server has advanced the handshake, and `end`
    when it will not any more. `is_over` is true once the client may send freely and all kept bytes were received.
    """

    def __init__(self, client: Amqp091Leg, frame_max: int, unread: bytes) -> None:
        """`unread` holds the bytes after the protocol header; `frame_max` limits a frame before one is negotiated."""
        self._client = client
        self._frame_max = frame_max
        self._unread = unread
        self._answered = trio.Event()
        self._has_ended = False

    @property
    def is_over(self) -> bool:
        return not self._unread and self._client.connection.state not in _LASTS

    def note_answer(self) -> None:
        self._answered.set()

    def end(self) -> None:
        self._has_ended = True
        self._answered.set()

    async def receive(self) -> bytes:
        """Return the next bytes, frame by frame; b"" at the end. Raises `TransportBroken` if the client is gone."""
        connection = self._client.connection
        while True:
            if self._unread and connection.state in _SERVER_ANSWERS and not self._has_ended:
                self._answered = trio.Event()
                await self._answered.wait()
                continue
            end = len(self._unread) if connection.state not in _LASTS else self._end_of_first()
            if end:
                taken, self._unread = self._unread[:end], self._unread[end:]
                return taken
            data = await self._client.transport.receive()
            if not data:
                taken, self._unread = self._unread, b""
                return taken
            self._unread += data

    def _end_of_first(self) -> int:
        """Return the end of the first frame: 0 if it is incomplete, the end of all bytes if it exceeds the limit."""
        if len(self._unread) < _PREFIX:
            return 0
        size = int.from_bytes(self._unread[3:_PREFIX]) + OVERHEAD
        if size > self._frame_max + OVERHEAD:
            return len(self._unread)
        return size if len(self._unread) >= size else 0
