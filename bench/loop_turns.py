"""Run amqproxy, and write the CPU time of its event loop's longest turn to a file.

The command is `python -m bench.loop_turns FILE ARGUMENT …`.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import trio

from amqproxy.cli import main

RESET = b"\0" * 32


class LongestTurn(trio.abc.Instrument):
    """Milliseconds of CPU of the longest turn between two waits for input, in the first bytes of a file.

    A new measurement begins when somebody has written `RESET` there.
    """

    def __init__(self, path: Path) -> None:
        path.write_bytes(RESET)
        self._file = path.open("r+b", buffering=0)
        self._began = time.thread_time()
        self._longest = 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        spent = time.thread_time() - self._began
        self._file.seek(0)
        if self._file.read(len(RESET)) == RESET:
            self._longest = 0.0
        if spent >= self._longest:
            self._longest = spent
            self._file.seek(0)
            self._file.write(f"{spent * 1000:<{len(RESET)}.3f}".encode())


def begin(path: Path) -> None:
    """Begin a new measurement."""
    path.write_bytes(RESET)


def longest(path: Path) -> float:
    """Return the milliseconds of the longest turn since `begin`."""
    return float(path.read_bytes().strip(b"\0") or 0)


if __name__ == "__main__":
    turns = LongestTurn(Path(sys.argv.pop(1)))
    trio.run = partial(trio.run, instruments=[turns])  # type: ignore[assignment]
    main()
