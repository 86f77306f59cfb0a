"""The trio shell: sockets for links, and a clock for the model."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import structlog
import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.link import CLOSING_TIME, Link

_offset: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("seconds from trio's clock to the time of day")

READ = 256 * 1024
TICK = 0.05
"""Seconds between two looks for what is due."""

TICKS_A_MEASUREMENT = 20
MEMORY_SHARE = 0.4


def current_time() -> float:
    """Seconds since 1970, by a clock that never goes back."""
    try:
        offset = _offset.get()
    except LookupError:
        offset = time.time() - trio.current_time()
        _offset.set(offset)
    return trio.current_time() + offset


async def serve_stream(
    broker: Broker,
    stream: trio.abc.Stream,
    *,
    is_loopback: bool = True,
    name: str = "",
    certificate_name: str | None = None,
) -> None:
    """Be the broker at the other end of `stream`, until either closes it; the rest is as in `Link`."""
    something = trio.Event()
    may_read = trio.Event()
    scope = trio.CancelScope()

    def wake() -> None:
        something.set()
        if link.is_over:
            scope.deadline = min(scope.deadline, trio.current_time() + CLOSING_TIME)
        if not link.is_blocked:
            may_read.set()

    link = Link(
        broker,
        is_loopback=is_loopback,
        wake=wake,
        name=name,
        certificate_name=certificate_name,
        now=current_time(),
    )

    async def send() -> None:
        nonlocal something
        try:
            while True:
                await something.wait()
                something = trio.Event()
                while output := link.take_output():
                    await stream.send_all(output)
                    link.sent(current_time())
                if link.is_over:
                    break
            link.lose(current_time())
            if isinstance(stream, trio.abc.HalfCloseableStream):
                # Closed at once, with something of the client's unread, the client might not get to see our last word.
                await stream.send_eof()
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    try:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                try:
                    while data := await stream.receive_some(READ):
                        link.feed(bytes(data), current_time())
                        if link.is_over:
                            something.set()
                        while link.is_blocked and not link.is_over:
                            may_read = trio.Event()
                            await may_read.wait()
                        if broker.keeper is not None and broker.keeper.journal.is_full:
                            is_written = trio.Event()
                            broker.keeper.journal.when_committed(is_written.set)
                            await is_written.wait()
                except trio.BrokenResourceError:
                    pass
                if link.is_over:
                    something.set()
                else:
                    scope.cancel()
    finally:
        link.lose(current_time())
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)


async def keep_time(broker: Broker) -> None:
    """Let the model do what is due, and know what memory is in use, for ever."""
    while True:
        broker.measure(current_time(), memory=memory_in_use())
        for _ in range(TICKS_A_MEASUREMENT):
            await trio.sleep(TICK)
            broker.tick(current_time())


def memory_in_use() -> int | None:
    """Octets of this process that are in memory; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def usual_memory_limit() -> int:
    """Octets above which publishers are held up: the share of all memory that RabbitMQ takes too."""
    return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@asynccontextmanager
async def serve(broker: Broker, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Be a broker on HOST:PORT for the while; gives the port."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    log = structlog.get_logger()
    async with trio.open_nursery() as nursery:

        async def handle(stream: trio.SocketStream) -> None:
            log.debug("client connected")
            try:
                peer, own = stream.socket.getpeername(), stream.socket.getsockname()
            except OSError:
                return  # it has gone already
            is_loopback = _is_loopback(peer[0])
            await serve_stream(broker, stream, is_loopback=is_loopback, name=f"{_shown(peer)} -> {_shown(own)}")

        nursery.start_soon(keep_time, broker)
        for listener in listeners:
            nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _is_loopback(host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
