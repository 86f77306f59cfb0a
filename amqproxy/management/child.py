"""The management API as a child process of `amqproxy broker`, which sends its settings on standard input."""

from __future__ import annotations

import socket

import msgspec

from amqproxy.configuration.config import LogConfig
from amqproxy.management.server import serve
from amqproxy.management.settings import Settings
from amqproxy.process import log
from amqproxy.web import child


class Task(msgspec.Struct, frozen=True):
    """The line that the parent sends: settings, file descriptor of the listening socket, logging."""

    settings: Settings
    listener: int
    log: LogConfig


def main() -> None:
    task = child.task(Task)
    with log.started(task.log), socket.socket(fileno=task.listener) as listener:
        serve(task.settings, listener)


if __name__ == "__main__":
    main()
