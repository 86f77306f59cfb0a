"""A file of JSON lines: who did what to which queue."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.taps.record import encoded


class Audit:
    """Appends lines to a file; each names the run. A line is written whole, and on the disk when `note` returns."""

    def __init__(self, path: Path, run: str, facts: Mapping[str, Any]) -> None:
        self._path = path
        self._run = run
        self._facts = dict(facts)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._is_torn = False
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def close(self) -> None:
        os.close(self._file)

    def begin(self) -> None:
        """Note what is about to be done, and by whom: a run that is killed has this line only."""
        self.note("begun", {"by": _user(), "host": socket.gethostname(), "process": os.getpid(), **self._facts})

    def note(self, event: str, facts: Mapping[str, Any]) -> None:
        """Append a line; raise `MoveFailed` if it cannot be written."""
        line = {"ts_ns": time.time_ns(), "run": self._run, "event": event, **facts}
        data = encoded(msgspec.to_builtins(line)) + b"\n"
        rest = memoryview(b"\n" + data if self._is_torn else data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
                self._is_torn = bool(rest)
            os.fsync(self._file)
        except OSError as error:
            raise MoveFailed(f"audit {self._path}: {error.strerror}") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
