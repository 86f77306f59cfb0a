"""A server as a child process: its settings come as one line of JSON on standard input, whose end ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, TypeVar

import msgspec

SHUTDOWN_SECONDS = 3
"""Seconds for the responses under way when a server is told to end."""

Line = TypeVar("Line")


def task(kind: type[Line]) -> Line:
    """Return the line that the parent sends, and end this process with SIGTERM once its standard input ends."""
    found = parse(sys.stdin.buffer.readline(), kind)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles SIGINT
    threading.Thread(target=_end_with_input, daemon=True).start()
    return found


def parse(line: bytes, kind: type[Line]) -> Line:
    """Parse the line that the parent sends."""
    return msgspec.json.decode(line, type=kind, dec_hook=_path)


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
