"""The dashboard of `amqproxy run` and `amqproxy broker`, a web process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from amqproxy.app import web_process
from amqproxy.app.web_process import WebProcess, python_module
from amqproxy.configuration.config import ConfigError, DashboardConfig, LogConfig
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.values import split_address


class DashboardProcess(WebProcess):
    """The dashboard's process, which shows one control socket."""

    name = "dashboard"
    command = python_module("amqproxy.dashboard.child")

    def __init__(
        self, config: DashboardConfig, secrets: dict[str, str], listener: socket.socket, control: Path, log: LogConfig
    ) -> None:
        settings = {
            "connect": [str(control.absolute())],
            "host": split_address(config.listen)[0],
            "port": listener.getsockname()[1],
            "read_only": config.read_only,
            "certificate": config.certificate,
            "key": config.key,
            "hosts": config.hosts,
            "ring": config.ring,
            "tables": config.tables or None,
            **secrets,
        }
        super().__init__(settings, listener, log)


def listening(config: DashboardConfig) -> AbstractContextManager[socket.socket]:
    """Return a listening socket for browsers, and log its URL; raise `OSError` on failure."""
    return web_process.listening("dashboard", config.listen, "http" if config.certificate is None else "https")


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
    """Return a path for a control socket of our own processes; raise `OSError` if no directory can be created."""
    with TemporaryDirectory(prefix="amqproxy-") as directory:  # no other user can open it
        yield Path(directory) / "amqproxy.sock"
