"""A broker in a separate thread, for programs and tests without trio."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.server import serve
from amqproxy.process.trio_thread import TrioThread

Answer = TypeVar("Answer")


class Background:
    """A running broker on `port` of `host`; its model belongs to the other thread: access it only through `do`."""

    def __init__(self, broker: Broker, host: str, port: int, thread: TrioThread[int]) -> None:
        self.host = host
        self.port = port
        self._broker = broker
        self._thread = thread

    @property
    def url(self) -> str:
        """The URL for clients, with the user guest."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://guest:guest@{host}:{self.port}/%2F"

    def do(self, action: Callable[[Broker, float], Answer]) -> Answer:
        """Call `action` with broker and time (seconds) in the broker's thread, uninterrupted, and return its result."""
        return self._thread.call(lambda: action(self._broker, current_time()))


@contextmanager
def serve_in_thread(
    broker: Broker | None = None, host: str = "127.0.0.1", port: int = 0, *, context: ssl.SSLContext | None = None
) -> Iterator[Background]:
    """Serve `broker`, or a new one, on HOST:PORT for the duration of the block, over TLS with a context.

    Port 0 takes a free one. `OSError` if the address is not available. At the end, open connections are cut.
    """
    served = Broker() if broker is None else broker
    thread = TrioThread(lambda: serve(served, host, port, context=context), "broker")
    bound = thread.start()
    try:
        yield Background(served, host, bound, thread)
    finally:
        thread.stop()
