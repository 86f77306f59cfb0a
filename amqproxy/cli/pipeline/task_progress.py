"""Progress of a job: one line on a terminal, erased at the end; elsewhere a line now and then."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from amqproxy.cli.progress import ERASE, INTERVAL, is_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

WIDTH = 24
"""Width of the bar in characters."""

LINE_SECONDS = 30.0
"""Time between two lines if standard error is not a terminal, such as in the log of a container."""


class TaskProgress:
    """Shows the running job and the number of its finished tasks on standard error."""

    def __init__(self) -> None:
        self._what = ""
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_shown = False
        self._thread = threading.Thread(target=self._work, name="progress", daemon=True)
        self._is_terminal = is_terminal(sys.stderr)
        self._is_waiting = False
        self._began = time.monotonic()

    def __enter__(self) -> TaskProgress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._clear()

    def begin(self, what: str, spark: SparkSession | None = None, *, is_waiting: bool = False) -> None:
        """Set the description of the current work, and the session that does it.

        If it `is_waiting` for new work, only a terminal shows it.
        """
        with self._lock:
            self._what = what
            self._spark = spark or self._spark
            self._is_waiting = is_waiting
            self._began = time.monotonic()

    def print(self, line: str) -> None:
        """Print a permanent line on standard error."""
        with self._lock:
            self._clear()
            print(line, file=sys.stderr)

    def _work(self) -> None:
        if not self._is_terminal:
            while not self._ended.wait(LINE_SECONDS):
                with self._lock:
                    line = self._line()
                if line:
                    self.print(line)
            return
        while not self._ended.wait(INTERVAL):
            text = self._text()
            with self._lock, suppress(OSError):
                if text:
                    columns = shutil.get_terminal_size().columns
                    sys.stderr.write(f"{ERASE}{text[: columns - 1]}")
                    sys.stderr.flush()
                    self._is_shown = True

    def _line(self) -> str:
        """Return a line for a log; empty if nothing is under way."""
        if self._is_waiting or not self._what:
            return ""
        found = self._tasks()
        tasks = "" if found is None else f", {found[0]} of {found[1]} tasks"
        return f"amqproxy: {self._what}: {time.monotonic() - self._began:.0f} s{tasks}"

    def _tasks(self) -> tuple[int, int] | None:
        """Return the numbers of finished and of all tasks; `None` if unknown."""
        if self._spark is None:
            return None
        from amqproxy.pipeline.engine import engine_of

        return engine_of(self._spark).progress()

    def _text(self) -> str:
        what, found = self._what, self._tasks()
        if found is None:
            return f"{what} …"
        done, total = found
        filled = done * WIDTH // total
        return f"{what}  {'━' * filled}{'╌' * (WIDTH - filled)}  {done} of {total} tasks"

    def _clear(self) -> None:
        if self._is_shown:
            with suppress(OSError):
                sys.stderr.write(ERASE)
                sys.stderr.flush()
            self._is_shown = False
