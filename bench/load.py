"""Raw sockets that write pre-built bytes and count received ones, each end in a separate process.

The processes spend their time in the kernel's send and receive, so they do not dominate the measurement.
"""

from __future__ import annotations

import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import repeat
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import NamedTuple, TypeVar

from bench import talk

BUFFER = 1024 * 1024

_fork = get_context("fork")

T = TypeVar("T")

Job = Callable[[], list[float]]
"""Work of a process, and the figures that it returns."""


class Failed(Exception):
    """A process of the bench failed."""


def side_by_side(*jobs: Job) -> list[list[float]]:
    """Run jobs concurrently, each in a separate process, and return their figures."""
    running = []
    for job in jobs:
        ours, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_run, args=(job, theirs), daemon=True)
        process.start()
        theirs.close()
        running.append((process, ours))
    results: dict[Connection, list[float]] = {}
    try:
        while len(results) < len(running):
            ready = wait([pipe for _, pipe in running if pipe not in results], 2 * talk.DEADLINE)
            if not ready:
                raise Failed("a process of the bench did not end")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                result = pipe.recv()
                if isinstance(result, str):
                    raise Failed(result)
                results[pipe] = result
    finally:
        for process, pipe in running:
            if pipe not in results:
                process.kill()
            process.join()
            pipe.close()
    return [results[pipe] for _, pipe in running]


def _run(job: Job, pipe: Connection) -> None:
    try:
        pipe.send(job())
    except Exception:  # noqa: BLE001 - the parent raises it
        pipe.send(traceback.format_exc())


def fill(message: bytes) -> bytes:
    """Return whole messages of about one `BUFFER` in all."""
    return message * max(1, BUFFER // len(message))


class Farewell(NamedTuple):
    """The close that ends a flood, and its answer."""

    close: bytes
    close_ok: bytes


FAREWELL = Farewell(talk.CLOSE, talk.CLOSE_OK)


def flood(socks: Iterable[socket.socket], data: bytes, times: int, farewell: Farewell = FAREWELL) -> list[float]:
    """Write `data` `times` times on each connection, then a close; return when it began."""
    socks = list(socks)
    began = time.monotonic()
    each(lambda sock: _flood(sock, data, times, farewell), socks)
    return [began]


def _flood(sock: socket.socket, data: bytes, times: int, farewell: Farewell) -> None:
    for _ in repeat(None, times):
        sock.sendall(data)
    sock.sendall(farewell.close)
    if talk.read_exactly(sock, len(farewell.close_ok)) != farewell.close_ok:
        raise ValueError("the close was not answered")
    sock.close()


def sink(socks: Iterable[socket.socket], size: int, farewell: Farewell = FAREWELL) -> list[float]:
    """Read `size` bytes and the following close on each connection; return when the last byte arrived."""
    return [max(each(lambda sock: _sink(sock, size, farewell), list(socks)))]


def _sink(sock: socket.socket, size: int, farewell: Farewell) -> float:
    close = farewell.close
    wanted = size + len(close)
    buffer = memoryview(bytearray(BUFFER))
    mark = b""
    while wanted:
        got = sock.recv_into(buffer)
        if not got:
            raise ValueError(f"closed {wanted} bytes too early")
        wanted -= got
        mark = mark[-len(close) :] + bytes(buffer[max(0, got - len(close)) : got])
    ended = time.monotonic()
    if not mark.endswith(close):
        raise ValueError(f"more came than was sent, ending in {mark!r}")
    sock.sendall(farewell.close_ok)
    sock.recv(1)
    sock.close()
    return ended


def each(work: Callable[[socket.socket], T], socks: list[socket.socket]) -> list[T]:
    """Run `work` for all sockets concurrently, and return the results."""
    if len(socks) == 1:
        return [work(socks[0])]
    with ThreadPoolExecutor(len(socks)) as threads:
        return list(threads.map(work, socks))


def ping(sock: socket.socket, data: bytes, answer: int, times: int) -> list[float]:
    """Send `data` and wait for `answer` bytes, `times` times; return the seconds of each round trip."""
    clock, send, receive = time.perf_counter, sock.send, sock.recv
    trips = []
    with closing(sock):
        for _ in repeat(None, times):
            began = clock()
            send(data)
            left = answer
            while left:
                left -= len(receive(left)) or _hung_up()
            trips.append(clock() - began)
        sock.sendall(talk.CLOSE)
        talk.read_exactly(sock, len(talk.CLOSE_OK))
    return trips


def pong(sock: socket.socket, size: int, answer: bytes, times: int) -> list[float]:
    """Send `answer` for every `size` bytes, `times` times."""
    send, receive = sock.send, sock.recv
    with closing(sock):
        for _ in repeat(None, times):
            left = size
            while left:
                left -= len(receive(left)) or _hung_up()
            send(answer)
        talk.read_exactly(sock, len(talk.CLOSE))
        sock.sendall(talk.CLOSE_OK)
        sock.recv(1)
    return []


def _hung_up() -> int:
    raise ValueError("hung up in the middle of something")


@contextmanager
def fork_open(
    listening: socket.socket, count: int, accept: Callable[[socket.socket], object] = talk.answer
) -> Iterator[None]:
    """Run a broker in a separate process that accepts `count` connections and keeps them until the block ends."""

    def hold() -> None:
        held = []
        for _ in range(count):
            sock, _ = listening.accept()
            accept(sock)
            held.append(sock)
        signal.pause()

    process = _fork.Process(target=hold, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
