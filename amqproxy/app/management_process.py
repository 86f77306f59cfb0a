"""The management API of `amqproxy broker`, a web process."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager
from pathlib import Path

from amqproxy.app import web_process
from amqproxy.app.web_process import WebProcess, python_module
from amqproxy.configuration.config import LogConfig, ManagementConfig
from amqproxy.configuration.values import split_address


class ManagementProcess(WebProcess):
    """The API's process, which serves one broker."""

    name = "management"
    command = python_module("amqproxy.management.child")

    def __init__(self, config: ManagementConfig, listener: socket.socket, control: Path, log: LogConfig) -> None:
        settings = {
            "control": str(control.absolute()),
            "host": split_address(config.listen)[0],
            "port": listener.getsockname()[1],
            "certificate": config.certificate,
            "key": config.key,
            "cors_origins": config.cors_origins,
            "cors_max_age": config.cors_max_age,
            "content_security_policy": config.content_security_policy,
            "strict_transport_security": config.strict_transport_security,
            "frame_options": config.frame_options,
            "metrics_without_login": config.metrics_without_login,
        }
        super().__init__(settings, listener, log)


def listening(config: ManagementConfig) -> AbstractContextManager[socket.socket]:
    """Return a listening socket for the API's clients, and log its URL; raise `OSError` on failure."""
    return web_process.listening("management", config.listen, "http" if config.certificate is None else "https")
