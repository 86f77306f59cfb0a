"""The broker in a thread of its own, for programs and tests that know nothing of trio."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeVar

import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.server import serve

Answer = TypeVar("Answer")


class Background:
    """A broker that runs, on `port` of `host`. Its model is the other thread's: reach for it through `do` only."""

    def __init__(self, broker: Broker, host: str, port: int, token: trio.lowlevel.TrioToken) -> None:
        self.host = host
        self.port = port
        self._broker = broker
        self._token = token

    @property
    def url(self) -> str:
        """Where clients connect, as the user guest."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://guest:guest@{host}:{self.port}/%2F"

    def do(self, action: Callable[[Broker, float], Answer]) -> Answer:
        """What `action` returns or raises, of the broker and the time in seconds; nothing else happens meanwhile."""
        return trio.from_thread.run_sync(lambda: action(self._broker, current_time()), trio_token=self._token)


@contextmanager
def serve_in_thread(
    broker: Broker | None = None, host: str = "127.0.0.1", port: int = 0, *, context: ssl.SSLContext | None = None
) -> Iterator[Background]:
    """Be `broker`, or a new one, on HOST:PORT for the while, over TLS where there is a context.

    Port 0 takes a free one. `OSError` when the address cannot be had. In the end, connections that are left are cut.
    """
    served = Broker() if broker is None else broker
    started: SimpleQueue[Background | BaseException] = SimpleQueue()
    is_over = trio.Event()

    async def run() -> None:
        try:
            async with serve(served, host, port, context=context) as bound:
                started.put(Background(served, host, bound, trio.lowlevel.current_trio_token()))
                await is_over.wait()
        except BaseException as error:
            started.put(error)
            raise

    def stay() -> None:
        with suppress(OSError):  # which is raised where the broker was wanted
            trio.run(run)

    thread = threading.Thread(target=stay, name="broker", daemon=True)
    thread.start()
    background = started.get()
    if isinstance(background, BaseException):
        thread.join()
        raise background
    try:
        yield background
    finally:
        background.do(lambda broker, now: is_over.set())
        thread.join()
