"""Progress of a job: one line on a terminal, erased at the end."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from amqproxy.cli.progress import ERASE, INTERVAL, is_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

WIDTH = 24
"""Width of the bar in characters."""


class TaskProgress:
    """Shows the running job and the number of its finished tasks on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._what = ""
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_shown = False
        self._thread = threading.Thread(target=self._work, name="progress", daemon=True)
        self._is_wanted = is_terminal(sys.stderr)

    def __enter__(self) -> TaskProgress:
        if self._is_wanted:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._is_wanted:
            self._thread.join()
        self._clear()

    def begin(self, what: str, spark: SparkSession | None = None) -> None:
        """Set the description of the current work, and the session that does it."""
        with self._lock:
            self._what = what
            self._spark = spark or self._spark

    def print(self, line: str) -> None:
        """Print a permanent line on standard error."""
        with self._lock:
            self._clear()
            print(line, file=sys.stderr)

    def _work(self) -> None:
        while not self._ended.wait(INTERVAL):
            text = self._text()
            with self._lock, suppress(OSError):
                if text:
                    columns = shutil.get_terminal_size().columns
                    sys.stderr.write(f"{ERASE}{text[: columns - 1]}")
                    sys.stderr.flush()
                    self._is_shown = True

    def _text(self) -> str:
        what, spark = self._what, self._spark
        if spark is None:
            return f"{what} …"
        from amqproxy.pipeline.engine import engine_of

        found = engine_of(spark).progress()
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
