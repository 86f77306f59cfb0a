"""The dashboard of `amqproxy run`: a process of its own, which asks the proxy as any other program does.

We listen for it, so that its address is known, and stays, whatever becomes of the process. It is started again when it
ends, and ends when we do, whichever way that is: its standard input is a pipe, of which it sees the end.
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

from amqproxy.configuration.config import ConfigError, DashboardConfig, LogConfig, join_address, split_address
from amqproxy.configuration.resources import ConfigResources
from amqproxy.process.log import logger
from amqproxy.process.supervision import supervised

COMMAND = (sys.executable, "-P", "-m", "dashboard.child")
"""Not from the current directory, where there may be another `dashboard`."""

LEAST_PAUSE = 1.0
"""Seconds until it is started again; twice as many each time that it soon ends again."""

MOST_PAUSE = 60.0

STEADY = 60.0
"""Seconds after which it has not ended soon."""

END_TIMEOUT = 5.0
"""Seconds that it has to end."""

BACKLOG = 128


class DashboardProcess:
    """The process, which `run` keeps up. Browsers that connect while there is none wait for the next."""

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
        """Keep it up until cancelled."""
        pause = LEAST_PAUSE
        while True:
            began = trio.current_time()
            await supervised("dashboard failed", self._run_once)
            if trio.current_time() - began > STEADY:
                pause = LEAST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    async def _run_once(self) -> None:
        # A session of its own: Ctrl-C drains us, and it is to show that.
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
def listening(config: DashboardConfig | None) -> Iterator[socket.socket | None]:
    """A socket where browsers connect, if there is to be a dashboard; its URL is logged. `OSError` if it cannot be."""
    if config is None:
        yield None
        return
    host, port = split_address(config.listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=BACKLOG) as listener:
        scheme = "http" if config.certificate is None else "https"
        address = join_address(host or socket.gethostname(), listener.getsockname()[1])
        logger().info("dashboard", address=f"{scheme}://{address}/")
        yield listener


def secrets_of(config: DashboardConfig) -> dict[str, str]:
    """The token or the password, if there is one. `ConfigError` when it cannot be read."""
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
    """Where a control socket can be that is for the dashboard alone. `OSError` where no directory can be made."""
    with TemporaryDirectory(prefix="amqproxy-") as directory:  # which no other user can open
        yield Path(directory) / "amqproxy.sock"
