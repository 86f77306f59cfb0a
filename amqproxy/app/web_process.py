"""A web server of a program as a process of its own, which uses the program's control socket like any other client.

The program opens the listening socket, so that the address is known, and stays the same, whatever happens to the
process. The process is restarted when it ends, and ends with the program in any case: its standard input is a pipe,
whose end it notices.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import msgspec
import trio

from amqproxy.configuration.config import LogConfig
from amqproxy.configuration.values import join_address, split_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import supervised

LEAST_PAUSE = 1.0
"""Seconds before a restart; doubled each time that it soon ends again."""

MOST_PAUSE = 60.0

STEADY = 60.0
"""Run time in seconds from which an end is not early."""

END_TIMEOUT = 5.0
"""Time limit for its end, in seconds."""

BACKLOG = 128


def python_module(name: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours.

    `-P`: not from the current directory, where another `amqproxy` may be.
    """
    return (sys.executable, "-P", "-m", name)


class WebProcess:
    """The process, which `run` keeps running. Clients that connect meanwhile wait for the next one.

    A subclass sets its `name` in the log, and its `command`.
    """

    name: ClassVar[str]
    command: ClassVar[tuple[str, ...]]

    def __init__(self, settings: Mapping[str, Any], listener: socket.socket, log: LogConfig) -> None:
        self._listener = listener
        task = {"settings": settings, "listener": listener.fileno(), "log": msgspec.to_builtins(log)}
        self._task = msgspec.json.encode(task) + b"\n"

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        pause = LEAST_PAUSE
        while True:
            began = trio.current_time()
            await supervised(f"{self.name} failed", self._run_once)
            if trio.current_time() - began > STEADY:
                pause = LEAST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    async def _run_once(self) -> None:
        # A separate session: Ctrl-C drains the program, which the server should show.
        process = await trio.lowlevel.open_process(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._listener.fileno(),),
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            with suppress(trio.BrokenResourceError):
                await process.stdin.send_all(self._task)
            logger().warning(f"{self.name} ended", code=await process.wait())
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)


async def _end(process: trio.Process) -> None:
    assert process.stdin is not None
    await process.stdin.aclose()
    if process.poll() is None:
        process.terminate()
        with trio.move_on_after(END_TIMEOUT):
            await process.wait()
    if process.poll() is None:
        process.kill()
        await process.wait()


@contextmanager
def listening(name: str, listen: str, scheme: str) -> Iterator[socket.socket]:
    """Return the listening socket of a server, and log its URL; raise `OSError` on failure."""
    host, port = split_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=BACKLOG) as listener:
        address = join_address(host or socket.gethostname(), listener.getsockname()[1])
        logger().info(name, address=f"{scheme}://{address}/")
        yield listener
