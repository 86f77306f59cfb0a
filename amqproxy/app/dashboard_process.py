"""The dashboard of `amqproxy run`: a separate process, which uses the proxy's control socket like any other program.

The proxy opens the listening socket, so that the address is known, and stays the same, whatever happens to the process.
The process is restarted when it ends, and ends with the proxy in any case: its standard input is a pipe, whose end it
notices.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import trio

from amqproxy.configuration.config import ConfigError, DashboardConfig, LogConfig
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.values import join_address, split_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import supervised

COMMAND = (sys.executable, "-P", "-m", "amqproxy.dashboard.child")
"""`-P`: not from the current directory, where another `amqproxy` may be"""

LEAST_PAUSE = 1.0
"""Seconds before a restart; doubled each time that it soon ends again."""

MOST_PAUSE = 60.0

STEADY = 60.0
"""Run time in seconds from which an end is not early."""

END_TIMEOUT = 5.0
"""Time limit for its end, in seconds."""

BACKLOG = 128


class DashboardProcess:
    """The process, which `run` keeps running. Browsers that connect meanwhile wait for the next one."""

    def __init__(
        self, config: DashboardConfig, secrets: dict[str, str], listener: socket.socket, control: Path, log: LogConfig
    ) -> None:
        self._listener = listener
        host, _ = split_address(config.listen)
        settings: dict[str, Any] = {
            "connect": [str(control.absolute())],
            "host": host,
            "port": listener.getsockname()[1],
            "read_only": config.read_only,
            "certificate": config.certificate,
            "key": config.key,
            "hosts": config.hosts,
            "ring": config.ring,
            "tables": config.tables or None,
            **secrets,
        }
        task = {"settings": settings, "listener": listener.fileno(), "log": msgspec.to_builtins(log)}
        self._task = msgspec.json.encode(task) + b"\n"

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        pause = LEAST_PAUSE
        while True:
            began = trio.current_time()
            await supervised("dashboard failed", self._run_once)
            if trio.current_time() - began > STEADY:
                pause = LEAST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    async def _run_once(self) -> None:
        # A separate session: Ctrl-C drains the proxy, which the dashboard should show.
        process = await trio.lowlevel.open_process(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._listener.fileno(),),
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            with suppress(trio.BrokenResourceError):
                await process.stdin.send_all(self._task)
            logger().warning("dashboard ended", code=await process.wait())
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
def listening(config: DashboardConfig) -> Iterator[socket.socket]:
    """Return a listening socket for browsers, and log its URL; raise `OSError` on failure."""
    host, port = split_address(config.listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=BACKLOG) as listener:
        scheme = "http" if config.certificate is None else "https"
        address = join_address(host or socket.gethostname(), listener.getsockname()[1])
        logger().info("dashboard", address=f"{scheme}://{address}/")
        yield listener


def secrets_of(config: DashboardConfig) -> dict[str, str]:
    """Return the token or the password, if configured; raise `ConfigError` if it cannot be read."""
    resources = ConfigResources(Path())
    found = {}
    for name in ("token", "password"):
        file, variable = getattr(config, f"{name}_file"), getattr(config, f"{name}_env")
        if file or variable:
            try:
                text = resources.text(file) if file else resources.variable(variable)
            except ValueError as error:
                raise ConfigError(f"dashboard: {error}") from None
            found[name] = text.rstrip("\r\n")
            if not found[name]:
                raise ConfigError(f"dashboard: the {name} is empty")
    return found


@contextmanager
def private_socket_path() -> Iterator[Path]:
    """Return a path for a control socket of the dashboard alone; raise `OSError` if no directory can be created."""
    with TemporaryDirectory(prefix="amqproxy-") as directory:  # no other user can open it
        yield Path(directory) / "amqproxy.sock"
