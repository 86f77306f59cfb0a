"""A mock for a test: on a free port, in a thread of its own."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from amqproxy.capture.decode import read_decoded
from amqproxy.process.trio_thread import TrioThread
from amqproxy.replay.dialogue import dialogues
from amqproxy.replay.mocking.dialects import AnyScript, scripts_of
from amqproxy.replay.mocking.mock_connection import MockSettings
from amqproxy.replay.mocking.mock_report import MockedConnection
from amqproxy.replay.mocking.mock_server import MockServer


class LocalMock(NamedTuple):
    """Where it listens, and its reports so far."""

    port: int
    reports: list[MockedConnection]


def scripts_in(*captures: Path) -> list[AnyScript]:
    return scripts_of(dialogues(read_decoded(list(captures))))


@contextmanager
def local_mock(
    *captures: Path,
    settings: MockSettings = MockSettings(speed=0),  # noqa: B008 - it is a tuple
    is_loop: bool = False,
    context: ssl.SSLContext | None = None,
) -> Iterator[LocalMock]:
    """A mock of these captures; when it ends, so do its clients, and all of them have been reported."""
    reports: list[MockedConnection] = []
    scripts = scripts_in(*captures)

    @asynccontextmanager
    async def serve() -> AsyncIterator[int]:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server = MockServer(scripts, settings, reports.append, is_loop=is_loop)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, [(listener, context)])
            yield listener.socket.getsockname()[1]
            nursery.cancel_scope.cancel()
        await listener.aclose()

    thread = TrioThread(serve, "mock")
    port = thread.start()
    try:
        yield LocalMock(port, reports)
    finally:
        thread.stop()
