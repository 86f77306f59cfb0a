"""A shovel process's line to its broker: commands, reports, and connections to the broker itself."""

from __future__ import annotations

import socket
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import count

import msgspec
import trio

from amqproxy.proxy.upstream import Unreachable
from amqproxy.shovels.broker_uri import BrokerURI
from amqproxy.shovels.shovel_messages import LONGEST_LINE, LocalConnection, OpenLocal, Report
from amqproxy.sockets.transport import SocketTransport, Transport

MOST_READ = 64 * 1024

DESCRIPTORS = 16
"""File descriptors that may come with one read."""

NO_DESCRIPTOR = "the shovel process has no file descriptor left: raise its limit (ulimit -n)"

_encoder = msgspec.json.Encoder()


class BrokerLine:
    """The line, over a Unix socket; `received` must be read."""

    def __init__(self, broker: trio.socket.SocketType) -> None:
        self._broker = broker
        self._lock = trio.Lock()
        self._descriptors: deque[int | None] = deque()
        """Descriptors that have come with lines which are not read yet, in their order; `None` for a lost one."""
        self._requests = count(1)
        self._waiting: dict[int, Callable[[LocalConnection], None]] = {}

    async def received(self) -> AsyncIterator[bytes]:
        """Yield the lines from the broker until it is gone."""
        unread = b""
        while len(unread) <= LONGEST_LINE:
            try:
                data, ancillary, flags, _ = await self._broker.recvmsg(MOST_READ, socket.CMSG_SPACE(4 * DESCRIPTORS))
            except OSError:  # the broker was killed
                return
            found = [
                descriptor
                for level, kind, octets in ancillary
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
                for descriptor in array("i", octets)
            ]
            self._descriptors.extend(found)
            if flags & socket.MSG_CTRUNC and not found:  # one read has the descriptor of at most one line, see unix(7)
                self._descriptors.append(None)
            if not data:
                return
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                yield line

    async def report(self, report: Report) -> None:
        """Send a report; if the broker is gone, the process ends anyway."""
        line = memoryview(_encoder.encode(report) + b"\n")
        async with self._lock:
            with trio.CancelScope(shield=True):  # a line is sent whole
                while line:
                    try:
                        line = line[await self._broker.send(line) :]
                    except OSError:
                        return

    async def open_local(self, uri: BrokerURI) -> Transport:
        """Return a connection to the broker; raise `Unreachable` with its reason if it refuses."""
        request, answered = next(self._requests), trio.Event()
        found: list[socket.socket | str] = []

        def take(connection: LocalConnection) -> None:
            found.append(connection.refused or self._next_socket())
            answered.set()

        self._waiting[request] = take
        try:
            await self.report(OpenLocal(request, uri.vhost, uri.user, uri.password))
            with trio.fail_after(uri.timeout):
                await answered.wait()
        except BaseException:
            if request in self._waiting:
                self._waiting[request] = self._drop
            for each in found:
                if isinstance(each, socket.socket):
                    each.close()
            raise
        match found[0]:
            case str() as reason:
                raise Unreachable("refused", reason)
            case connection:
                connection.setblocking(False)
                return SocketTransport(connection)

    def answer(self, connection: LocalConnection) -> None:
        """Pass the broker's answer on to the task that waits for it."""
        self._waiting.pop(connection.request)(connection)

    def _next_socket(self) -> socket.socket | str:
        """Return the connection of the next line, or why there is none."""
        descriptor = self._descriptors.popleft() if self._descriptors else None
        return NO_DESCRIPTOR if descriptor is None else socket.socket(fileno=descriptor)

    def _drop(self, connection: LocalConnection) -> None:
        """Close a connection that nobody waits for any more."""
        found = connection.refused or self._next_socket()
        if isinstance(found, socket.socket):
            found.close()
