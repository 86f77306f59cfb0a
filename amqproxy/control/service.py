"""The Unix socket through which a desk is asked: many at a time, each of them bounded."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import trio

from amqproxy.control.desk import Answer, Desk
from amqproxy.control.request import MAX_LINE, AnyRequest, Watch, Wrong, id_of, parse
from amqproxy.proxy.session import Session
from amqproxy.supervision import contained

MAX_ASKERS = 64
"""Who may ask at a time; others are told that it is busy."""

MAX_EVENTS = 1_000
"""Events that wait for one who watches; more are dropped, and he is told how many."""

LINE_TIMEOUT = 30.0
"""Seconds for the rest of a request, once it has begun."""

IDLE_TIMEOUT = 600.0
"""Seconds after which one who asks nothing, and does not watch, is let go."""

SEND_TIMEOUT = 10.0
"""Seconds for somebody to take an answer; after that he is let go."""

BREATHER = 1.0
"""Seconds to wait when the system has no file descriptor left for another client."""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""What is raised when a client of the socket has closed it, or takes no answer."""

PATH_SIZE = 107
"""Octets of a Unix socket's name, at most."""


class Occupied(Exception):
    """The socket cannot be had; the text says why."""


@contextmanager
def opened(path: Path) -> Iterator[socket.socket]:
    """A socket that listens at `path`, for its owner only; gone from there in the end.

    One that nobody listens at any more is replaced. `Occupied` when it cannot be had.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        _bind(listening, path)
        mark = _mark(path)
        try:
            yield listening
        finally:
            if mark is not None and _mark(path) == mark:
                with suppress(FileNotFoundError):
                    path.unlink()


def _bind(listening: socket.socket, path: Path) -> None:
    if len(os.fsencode(path)) > PATH_SIZE:
        raise Occupied(f"control socket {path}: the name of a Unix socket has {PATH_SIZE} octets at most")
    if _is_stale(path):
        path.unlink()
    before = os.umask(0o177)
    try:
        listening.bind(os.fspath(path))
        listening.listen(MAX_ASKERS)
    except OSError as error:
        raise Occupied(f"control socket {path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    listening.setblocking(False)


def _is_stale(path: Path) -> bool:
    """Is there a socket at which nobody listens? `Occupied` when somebody does, or it is something else."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Occupied(f"control socket {path}: {error.strerror or error}") from None
    if not stat.S_ISSOCK(mode):
        raise Occupied(f"control socket {path}: there is a file of that name, which is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return True
        except OSError as error:
            if error.errno != errno.EAGAIN:  # as many wait to be accepted as may
                raise Occupied(f"control socket {path}: {error.strerror or error}") from None
    raise Occupied(f"control socket {path}: another amqproxy listens there")


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells the socket at `path` from another that took its place."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Service:
    """Lets whoever connects ask the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._askers: set[_Asker] = set()

    async def run(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:
            while True:
                pause = BREATHER
                with contained("cannot accept on the control socket"):
                    nursery.start_soon(self._serve, await listener.accept())
                    pause = 0.0
                await trio.sleep(pause)

    def note_hold(self, session: Session, number: int) -> None:
        """Let those know who watch."""
        for asker in self._askers:
            with contained("control event failed"):
                asker.note_hold(session, number)

    async def _serve(self, stream: trio.SocketStream) -> None:
        asker = _Asker(stream, self._desk)
        async with stream:
            with contained("control request failed"):
                if len(self._askers) >= MAX_ASKERS:
                    with suppress(*GONE):
                        await asker.say(_wrong(None, Wrong("busy", f"{MAX_ASKERS} others ask already")))
                    return
                self._askers.add(asker)
                try:
                    await asker.run()
                finally:
                    self._askers.remove(asker)


class _Asker:
    """One who has connected: his requests in turn, and what he watches for."""

    def __init__(self, stream: trio.SocketStream, desk: Desk) -> None:
        self._stream = stream
        self._desk = desk
        self._lock = trio.Lock()
        self._unread = bytearray()
        self._excerpt: int | None = None
        self._lost = 0
        self._events_in, self._events_out = trio.open_memory_channel[Answer](MAX_EVENTS)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for task in (self._listen, self._tell):
                nursery.start_soon(self._until_gone, task, nursery.cancel_scope)

    async def _until_gone(self, task: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        """Run one of the two tasks; when it ends, or the client is gone, so does the other."""
        try:
            with suppress(*GONE):
                await task()
        finally:
            scope.cancel()

    async def _listen(self) -> None:
        """Answer requests until there are no more."""
        while True:
            try:
                line = await self._line()
            except Wrong as wrong:
                await self.say(_wrong(None, wrong))
                return
            if line is None:
                return
            await self._answer(line)

    async def _line(self) -> bytes | None:
        """The next request; None when there are no more, or it takes too long to come. `Wrong` when it is too long."""
        searched = 0
        began = trio.current_time()
        while (end := self._unread.find(b"\n", searched)) < 0:
            if len(self._unread) > MAX_LINE:
                raise Wrong("too-long", f"a request has {MAX_LINE} octets at most")
            searched = len(self._unread)
            timeout = LINE_TIMEOUT if searched else IDLE_TIMEOUT if self._excerpt is None else float("inf")
            with trio.move_on_at(began + timeout) as patience:
                data = await self._stream.receive_some()
            if patience.cancelled_caught or not data:
                return None
            if not searched:
                began = trio.current_time()
            self._unread += data
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    async def _answer(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            request = parse(line)
            if isinstance(request, Watch):
                self._excerpt = request.body
            answer = self._desk.answer(request)
        except Wrong as wrong:
            await self.say(_wrong(id_of(line), wrong))
        else:
            await self.say(_right(request, answer))

    def note_hold(self, session: Session, number: int) -> None:
        if self._excerpt is None:
            return
        held = self._desk.held(session, number, self._excerpt)
        if held is None:
            return
        try:
            self._events_in.send_nowait({"event": "held", "held": held})
        except trio.WouldBlock:
            self._lost += 1

    async def _tell(self) -> None:
        """Say what happens, as long as somebody watches."""
        async for event in self._events_out:
            await self.say(event)
            if self._lost:
                lost, self._lost = self._lost, 0
                await self.say({"event": "lost", "count": lost})

    async def say(self, answer: Answer) -> None:
        """One line. `TooSlowError` when he does not take it."""
        octets = msgspec.json.encode(answer) + b"\n"
        with trio.fail_after(SEND_TIMEOUT):
            async with self._lock:
                await self._stream.send_all(octets)


def _addressed(id_: int | str | None) -> dict[str, Any]:
    return {} if id_ is None else {"id": id_}


def _right(request: AnyRequest, answer: Answer) -> Answer:
    return _addressed(request.id) | {"ok": True} | answer


def _wrong(id_: int | str | None, wrong: Wrong) -> Answer:
    return _addressed(id_) | {"ok": False, "error": wrong.name, "text": str(wrong)}
