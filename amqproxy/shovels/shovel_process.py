"""The shovel process of a broker: started when there is a shovel, and again when it has ended."""

from __future__ import annotations

import socket
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator
from contextlib import ExitStack

import msgspec
import trio

from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.server.server import BrokerServer
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.shovels.shovel_messages import LONGEST_LINE, LocalConnection, OpenLocal, Report
from amqproxy.shovels.shovel_states import ShovelStates

COMMAND = (sys.executable, "-P", "-m", "amqproxy.shovels.child")
"""`-P`: not from the current directory, where another `amqproxy` may be."""

LEAST_PAUSE, MOST_PAUSE = 0.5, 30.0
"""Seconds before a process that has ended is started again: doubled each time, unless it has run for `STEADY`."""

STEADY = 60.0

END_TIMEOUT = 10.0
"""Seconds for a process to close its connections once its input has ended."""

MOST_READ = 64 * 1024

EVERYTHING = Permission(".*", ".*", ".*")

BROKER_USER = "none"
"""RabbitMQ's name of the user of connections that need no login."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Report)


class ShovelProcess:
    """The process; it ends with its standard input. Passwords reach it only there."""

    def __init__(self, server: BrokerServer, states: ShovelStates) -> None:
        self._server = server
        self._states = states
        self._woken = trio.Event()
        states.wake = self._wake
        self.pid: int | None = None

    def _wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Keep the process running while there are shovels, until cancelled."""
        pause = LEAST_PAUSE
        while True:
            while not len(self._states):
                self._woken = trio.Event()
                await self._woken.wait()
            began = trio.current_time()
            with contained("shovel process failed"):  # such as without a file descriptor for its input
                await self._run_once()
            self._states.note_process_end()
            if trio.current_time() - began > STEADY:
                pause = LEAST_PAUSE
            if len(self._states):
                await trio.sleep(pause)
                pause = min(2 * pause, MOST_PAUSE)

    async def _run_once(self) -> None:
        """Run one process until it ends, or there is no shovel any more."""
        ours, theirs = socket.socketpair()
        with ExitStack() as ends:
            ends.enter_context(ours)
            with theirs:
                # A separate session: Ctrl-C drains the broker, which ends the process with its standard input.
                process = await trio.lowlevel.open_process(
                    COMMAND, stdin=theirs, stdout=subprocess.DEVNULL, start_new_session=True
                )
            ends.pop_all()
        self.pid = process.pid
        logger().info("shovel process started", pid=process.pid)
        line = ProcessLine(trio.socket.from_stdlib_socket(ours))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_commands, line, nursery.cancel_scope)
                await self._receive_reports(line, nursery)
                nursery.cancel_scope.cancel()
        finally:
            self.pid = None
            line.close()
            with trio.CancelScope(shield=True):
                await _end(process)
        if len(self._states):
            logger().warning("shovel process ended", code=process.returncode)

    async def _send_commands(self, line: ProcessLine, scope: trio.CancelScope) -> None:
        while len(self._states):
            self._woken = trio.Event()
            for command in self._states.commands():
                await line.send(_encoder.encode(command))
            await self._woken.wait()
        for command in self._states.commands():
            await line.send(_encoder.encode(command))
        scope.cancel()

    async def _receive_reports(self, line: ProcessLine, nursery: trio.Nursery) -> None:
        async for data in line.received():
            report = _decoder.decode(data)
            if isinstance(report, OpenLocal):
                await self._open(line, report)
            else:
                self._states.note(report)

    async def _open(self, line: ProcessLine, request: OpenLocal) -> None:
        """Open a connection to this broker for the process, as the user of the URI or as the broker itself."""
        broker = self._server.broker
        try:
            if request.user is None:
                user = User(BROKER_USER, "", tags=("impersonator",))
                user.permit(request.vhost, EVERYTHING)
            elif request.password is None:
                found = broker.users.get(request.user)
                if found is None:
                    raise LoginRefused(f"there is no user '{request.user}'")
                user = found
            else:
                user = broker.log_in(request.user, request.password, is_loopback=True)
        except LoginRefused as error:
            await line.send(_encoder.encode(LocalConnection(request.request, str(error))))
            return
        name = f"<{broker.node}.{self.pid}.{request.request}>"  # in the style of RabbitMQ's direct connections
        try:
            connection = self._server.open(user, name)
        except OSError as error:  # no file descriptor is left
            await line.send(_encoder.encode(LocalConnection(request.request, f"no connection: {error.strerror}")))
            return
        with connection:
            await line.send(_encoder.encode(LocalConnection(request.request)), connection.fileno())


class ProcessLine:
    """The broker's end of the line to its shovel process."""

    def __init__(self, process: trio.socket.SocketType) -> None:
        self._process = process
        self._lock = trio.Lock()

    def close(self) -> None:
        """End the process's input."""
        self._process.close()

    async def send(self, data: bytes, descriptor: int | None = None) -> None:
        """Send a line, with a file descriptor; nothing happens if the process has ended."""
        line = memoryview(data + b"\n")
        rights = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
        async with self._lock:
            try:
                while line:
                    line = line[await self._process.sendmsg([line], rights) :]
                    rights = []  # they go with the first byte
            except OSError:
                return

    async def received(self) -> AsyncIterator[bytes]:
        """Yield the lines of the process until it ends."""
        unread = b""
        while len(unread) <= LONGEST_LINE:
            try:
                data = await self._process.recv(MOST_READ)
            except OSError:
                return
            if not data:
                return
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                yield line


async def _end(process: trio.Process) -> None:
    if process.poll() is None:
        with trio.move_on_after(END_TIMEOUT):
            await process.wait()
    if process.poll() is None:
        process.kill()
        await process.wait()
