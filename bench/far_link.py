"""A link to a far broker: a relay of TCP connections that delays the bytes of each direction."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

CHUNK = 65_536


@contextmanager
def far_link(port: int, round_trip: float) -> Iterator[int]:
    """Yield a port that leads to another one of this machine, `round_trip` seconds away; it is a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(port, round_trip / 2, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _run(port: int, delay: float, pipe: Connection) -> None:
    asyncio.run(_serve(port, delay, pipe))


async def _serve(port: int, delay: float, pipe: Connection) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * delay)  # the handshake of TCP
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_carry(reader, other_writer, delay), _carry(other_reader, writer, delay))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Carry one direction: each chunk arrives after the delay, in order."""
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(CHUNK):
            loop.call_later(delay, writer.write, data)
    except OSError:
        pass
    loop.call_later(delay, writer.close)
