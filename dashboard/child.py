"""The dashboard as a child process of `amqproxy run`, which sends its settings on standard input.

They are one line of JSON: `settings`, the file descriptor of the `listener`, and how to `log`. The end of standard
input means that the proxy has ended, and ends this process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.configuration.config import LogConfig
from amqproxy.dashboard.server import SHUTDOWN_SECONDS, serve
from amqproxy.dashboard.settings import Settings
from amqproxy.process import log


class Task(msgspec.Struct, frozen=True):
    """The line that the parent sends: settings, listening socket, logging."""

    settings: Settings
    listener: int
    log: LogConfig


def main() -> None:
    task = parse(sys.stdin.buffer.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the proxy handles SIGINT
    threading.Thread(target=_end_with_input, daemon=True).start()
    with log.started(task.log), socket.socket(fileno=task.listener) as listener:
        serve(task.settings, listener=listener)


def parse(line: bytes) -> Task:
    """Parse the line that the parent sends."""
    return msgspec.json.decode(line, type=Task, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise TypeError(f"no {kind} is expected")


def _end_with_input() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(2 * SHUTDOWN_SECONDS)
    os._exit(1)  # the shutdown hangs


if __name__ == "__main__":
    main()
