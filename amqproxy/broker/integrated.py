"""The broker as an upstream in the same process, over socket pairs."""

from __future__ import annotations

import socket

import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.server import keep_time, serve_stream


class Integrated:
    """Connections to `broker` for whoever runs beside it; `run` must be running."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve what `open` opens, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(keep_time, self.broker)
            task_status.started()

    def open(self) -> socket.socket:
        """The client's end of a new connection, non-blocking."""
        assert self._nursery is not None
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self._nursery.start_soon(serve_stream, self.broker, stream)
        return ours
