"""The broker in a thread of its own, for programs and tests that know nothing of trio."""

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
    """A broker that runs, on `port` of `host`. Its model is the other thread's: reach for it through `do` only."""

    def __init__(self, broker: Broker, host: str, port: int, thread: TrioThread[int]) -> None:
        self.host = host
        self.port = port
        self._broker = broker
        self._thread = thread

    @property
    def url(self) -> str:
        """Where clients connect, as the user guest."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://guest:guest@{host}:{self.port}/%2F"

    def do(self, action: Callable[[Broker, float], Answer]) -> Answer:
        """What `action` returns or raises, of the broker and the time in seconds; nothing else happens meanwhile."""
        return self._thread.call(lambda: action(self._broker, current_time()))


@contextmanager
def serve_in_thread(
    broker: Broker | None = None, host: str = "127.0.0.1", port: int = 0, *, context: ssl.SSLContext | None = None
) -> Iterator[Background]:
    """Be `broker`, or a new one, on HOST:PORT for the while, over TLS where there is a context.

    Port 0 takes a free one. `OSError` when the address cannot be had. In the end, connections that are left are cut.
    """
    served = Broker() if broker is None else broker
    thread = TrioThread(lambda: serve(served, host, port, context=context), "broker")
    bound = thread.start()
    try:
        yield Background(served, host, bound, thread)
    finally:
        thread.stop()
