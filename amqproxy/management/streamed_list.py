"""Responses that are made while they are sent: the turns of their makers, their memory, and readers that are slow."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Self

from amqproxy.management.failure import Failure

CHUNK = 64 * 1024
"""Approximate bytes of a list that are sent at a time."""

LISTS_AT_ONCE = 2
"""Lists that are put together at the same time; others wait, since each may have tens of MiB."""

MOST_HELD = 256 * 1024 * 1024
"""Most bytes of rows in memory for all lists; one that is sorted here may have more by itself."""

MOST_UNREAD = 32 * 1024 * 1024
"""Bytes of one response above which its maker waits for its reader."""

READER_PATIENCE = 5.0
"""Seconds without a byte read after which its maker continues, up to `MOST_HELD`.

The broker ends the connection of a control client that reads nothing for ten seconds.
"""

MOST_WAITING = 4
"""Responses that wait for their readers at the same time: each has a connection to the control socket."""

ROWS_A_TURN = 200
"""Rows that are made before other requests have their turn."""

TURN = 0.005
"""Seconds after which they have it in any case."""


class Pace:
    """Turns for other requests between rows."""

    def __init__(self) -> None:
        self._number = 0
        self._ends = time.monotonic() + TURN

    async def row(self) -> None:
        """Count a row, and let others have their turn after some."""
        self._number += 1
        if self._number >= ROWS_A_TURN or time.monotonic() >= self._ends:
            await asyncio.sleep(0)
            self._number = 0
            self._ends = time.monotonic() + TURN


class _Held:
    """Bytes of the encoded rows of all lists that are put together or being sent, and makers that wait for readers."""

    def __init__(self) -> None:
        self.total = 0
        self.waiting = 0

    def add(self, size: int, *, own: int = 0) -> None:
        """Count further bytes; `Failure` beyond the bound, unless all are the list's `own`."""
        self.total += size
        if self.total > MOST_HELD and own < self.total:
            raise Failure(503, "service_unavailable", "other lists take too much memory: ask again")


held = _Held()

lists = asyncio.Semaphore(LISTS_AT_ONCE)

pages = asyncio.Semaphore(LISTS_AT_ONCE)
"""Turns of pages that the broker selects, which need not wait for whole lists."""


class _Unread:
    """The chunks of a response between its maker and its reader."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._is_complete = False
        self._has_arrived = asyncio.Event()
        self._was_read = asyncio.Event()
        self.size = 0

    def put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)
        self._has_arrived.set()
        held.add(len(chunk))

    def end(self) -> None:
        self._is_complete = True
        self._has_arrived.set()

    async def next(self) -> bytes | None:
        """Return the next chunk, once it is made; None at the end."""
        while not self._chunks:
            if self._is_complete:
                return None
            self._has_arrived.clear()
            await self._has_arrived.wait()
        chunk = self._chunks.popleft()
        self.size -= len(chunk)
        held.total -= len(chunk)
        self._was_read.set()
        return chunk

    async def room(self) -> None:
        """Wait until there is room for more; `TimeoutError` if the reader reads nothing."""
        while self.size > MOST_UNREAD:
            self._was_read.clear()
            async with asyncio.timeout(READER_PATIENCE):
                await self._was_read.wait()

    def close(self) -> None:
        held.total -= self.size


class _Turn:
    """One of the turns of makers, which is given back while its maker waits for a reader."""

    def __init__(self) -> None:
        self._lists = lists
        self._has_it = False
        self._is_patient = True

    async def __aenter__(self) -> Self:
        await self._lists.acquire()
        self._has_it = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._has_it:
            self._lists.release()

    async def wait(self, unread: _Unread) -> None:
        """Wait until there is room, unless too many do, or the reader once read nothing for too long."""
        if unread.size <= MOST_UNREAD or held.waiting >= MOST_WAITING or not self._is_patient:
            return
        self._lists.release()
        self._has_it = False
        held.waiting += 1
        try:
            await unread.room()
        except TimeoutError:
            self._is_patient = False
        finally:
            held.waiting -= 1
        await self._lists.acquire()
        self._has_it = True


async def streamed(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield a response in chunks, from its first parts on; its reader may be slow, and hold up no other."""
    unread = _Unread()
    task = asyncio.create_task(_make(parts, unread))
    try:
        while (chunk := await unread.next()) is not None:
            yield chunk
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        unread.close()


async def _make(parts: AsyncGenerator[bytes], unread: _Unread) -> None:
    chunk = bytearray()
    try:
        async with _Turn() as turn, aclosing(parts):
            pace = Pace()
            async for part in parts:
                chunk += part
                if len(chunk) >= CHUNK:
                    unread.put(bytes(chunk))
                    chunk.clear()
                    await turn.wait(unread)
                await pace.row()
            unread.put(bytes(chunk))
    finally:
        unread.end()


async def sliced(body: bytes) -> AsyncGenerator[bytes]:
    """Yield a body in chunks, between which other requests have their turn: each is compressed by itself."""
    for begin in range(0, max(len(body), 1), CHUNK):
        yield body[begin : begin + CHUNK]
        await asyncio.sleep(0)
