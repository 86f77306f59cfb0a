"""Runs a command that says little, and says what it is doing: something at least every two seconds.

    python3 tests/with_progress.py "installing" COMMAND ARGUMENT…

It knows pip's lines, and what the build hook writes into the file that AMQPROXY_PROGRESS names. On a terminal that is
one line, elsewhere a new one each time. All that the command has written is shown if it fails; its exit code is ours.
"""

import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

INTERVAL = 2.0
"""Seconds between two lines, at most."""

LOOK = 0.2
"""Seconds between two looks at what the command has written."""

WIDTH = 120
"""Characters of a line on a terminal, at most."""

PIP = (
    (re.compile(r"Collecting (\S+)"), "looking for {}"),
    (re.compile(r"\s*(?:Downloading|Using cached) ([\w.]+?)-\d\S*( \([\d.]+ .?B\))?"), "fetching {}{}"),
    (re.compile(r"\s*Installing build dependencies: started"), "installing what the build needs"),
    (re.compile(r"\s*Building (?:wheel|editable) for (\S+) .*: started"), "building {}"),
)
INSTALLING = re.compile(r"Installing collected packages: (.*)")


def understood(line: str) -> str | None:
    """What a line of pip's, or of the build hook's, says; None for all others."""
    if line.startswith("amqproxy: "):
        return line.removeprefix("amqproxy: ").rstrip()
    if found := INSTALLING.match(line):
        return f"installing {found[1].count(',') + 1} packages"
    for pattern, text in PIP:
        if found := pattern.match(line):
            return text.format(*(group or "" for group in found.groups()))
    return None


class Shown:
    """The line that is shown: what is being done, and for how long. `clock` is in seconds."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._began = self._step_began = self._last = clock()
        self._step = ""
        self._is_terminal = stream.isatty()
        self._show()

    def take(self, line: str) -> None:
        """Take a line of the command: it may say that something else is done from here on."""
        step = understood(line)
        if step is not None and step != self._step:
            self._step, self._step_began = step, self._clock()
            self._show()

    def look(self) -> None:
        """Show it again, if it was shown so long ago."""
        if self._clock() - self._last >= INTERVAL:
            self._show()

    def end(self, code: int) -> None:
        """It is over."""
        seconds = self._clock() - self._began
        ending = f"failed with exit code {code}" if code else "done"
        self._write(f"amqproxy: {self._what}: {ending}, {seconds:.1f} s", "\n")

    def _show(self) -> None:
        self._last = self._clock()
        seconds = int(self._last - self._step_began)
        step = f": {self._step}" if self._step else ""
        took = f" ({seconds} s)" if seconds else ""
        self._write(f"amqproxy: {self._what}{step}{took} …", "" if self._is_terminal else "\n")

    def _write(self, line: str, end: str) -> None:
        self._stream.write((f"\r\033[K{line[:WIDTH]}" if self._is_terminal else line) + end)
        self._stream.flush()


def run(what: str, command: Sequence[str], stream: TextIO = sys.stderr) -> int:
    """Run the command, and return its exit code."""
    shown = Shown(what, stream)
    with tempfile.TemporaryDirectory() as directory:
        progress = Path(directory, "progress")
        progress.touch()
        with progress.open(errors="replace") as hook, _started(command, progress) as process:
            lines = _lines_of(process)
            kept = []
            while (line := _next(lines)) is not None:
                kept.append(line)
                for each in (line, *hook):
                    shown.take(each)
                shown.look()
        code = process.wait()
    shown.end(code)
    if code:
        stream.write("".join(kept))
    return code


def _started(command: Sequence[str], progress: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, "AMQPROXY_PROGRESS": str(progress), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _lines_of(process: subprocess.Popen[str]) -> "queue.Queue[str | None]":
    """What the process writes, line by line as it comes; None at its end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def _next(lines: "queue.Queue[str | None]") -> str | None:
    """The next line; an empty one where there is none for a while, None at the end."""
    try:
        return lines.get(timeout=LOOK)
    except queue.Empty:
        return ""


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
