"""Does what a page of the documentation says, from its first line to its last, and compares what is printed.

    python -m tests.docs.page_runner PAGE       in a new directory, and in a network of its own where every port is free

- A block with a title, such as ```toml title="proxy.toml"```, is written to that file.
- In a ```console``` block, what follows `$ ` is run by bash, and what follows that is what it prints: each line has to
  come, in this order, among others perhaps; `…` stands for any text. What runs on then is ended with Ctrl-C; with `&`
  at its end a command stays until the page ends, and must not fail until then; `# fails` says that its exit code is
  not 0. A pipe fails with any of its commands. As in a terminal, lines may also come from commands that stay.
- After `<!-- until Ctrl-C -->`, commands of a block may go on: each is ended once it has had the time to fail.
- `<!-- first: COMMAND -->` is run by bash, unseen by readers; REPOSITORY is in its environment.
- `pip install amqproxy[EXTRA]` is not run, which would ask PyPI; but the extras have to exist, and packages beside it
  have to be installed.
- Other blocks are to read; so is one after `<!-- only to read: why -->`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

TIMEOUT = 60.0
"""Seconds for a command to print what the page shows."""

IDLE = 3.0
"""Seconds without more output after which a command that has printed all is ended."""

ENDING = 10.0
"""Seconds to end after Ctrl-C."""

QUIET = 2.0
"""Seconds that a command which goes on is given to fail."""

INSTALL = re.compile(r'pip install "?amqproxy(?:\[(?P<extras>[\w,-]+)\])?"?(?P<others>(?: [\w-]+)*)(?: +#.*)?')

ROOT = Path(__file__).parent.parent.parent

BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- first: (?P<first>[^\n]+) -->$|"
    r"(?:(?P<only><!-- only to read: [^\n]+ -->)\n+ *|(?P<goes_on><!-- until Ctrl-C -->)\n+ *)?"
    r'```(?P<kind>[a-z]+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$)',
    re.MULTILINE | re.DOTALL,
)


Printed = tuple[subprocess.Popen[str], str | None]
"""A line with the process that printed it; `None` at its end."""


class Block(msgspec.Struct, frozen=True):
    """A fenced block, and the line of the page that it begins in; or, of the kind "first", a command unseen."""

    kind: str
    title: str | None
    text: str
    line: int
    goes_on: bool = False


class Command(msgspec.Struct, frozen=True):
    """What is run, what it prints, and the line of the page that it is in."""

    text: str
    output: tuple[str, ...]
    line: int

    @property
    def stays(self) -> bool:
        return self.text.endswith("&")


class PageFailed(Exception):
    """A page does not say what happens; the text has its line."""


def blocks(page: str) -> Iterator[Block]:
    for found in BLOCK.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        if found["first"]:
            yield Block("first", None, found["first"], line)
        elif not found["only"]:
            indent = len(found["indent"])
            text = "\n".join(line[indent:] for line in found["text"].splitlines()) + "\n"
            yield Block(found["kind"], found["title"], text, line, bool(found["goes_on"]))


def commands(block: Block) -> Iterator[Command]:
    text, output, begun = "", [], 0
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if text.endswith("\\"):
            text += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if text:
                yield Command(text, tuple(output), begun)
            text, output, begun = line[2:], [], number
        elif line.strip():
            output.append(line)
    if text:
        yield Command(text, tuple(output), begun)


def installations(page: str) -> Iterator[str]:
    """Yield the page's commands that install this package, in their order."""
    for block in blocks(page):
        if block.kind == "console":
            yield from (each.text for each in commands(block) if INSTALL.fullmatch(each.text))


def pattern(line: str) -> re.Pattern[str]:
    """A line of output as the page shows it: spaces are as many as you like, `…` and a time of day are anything."""
    line = re.sub(r"\d\d:\d\d:\d\d\S*", "…", line)
    pieces = [r"\s+".join(map(re.escape, piece.split(" "))) for piece in re.sub(" +", " ", line.strip()).split("…")]
    return re.compile(".*".join(pieces))


class Page:
    """One page, while it is done."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._staying: list[tuple[Command, subprocess.Popen[str], list[str]]] = []
        self._terminal: SimpleQueue[Printed] = SimpleQueue()
        """Lines of all commands, in the order in which they came."""

    def do(self, block: Block) -> None:
        if block.title:
            path = self._directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "first":
            self._run(Command(block.text, (), block.line))
        elif block.kind == "console":
            for command in commands(block):
                if installed := INSTALL.fullmatch(command.text):
                    _check_packages(installed["extras"], installed["others"].split(), command)
                else:
                    self._run(command, goes_on=block.goes_on)

    def check_staying(self) -> None:
        """`PageFailed` for a command with `&` that has failed."""
        for command, process, seen in self._staying:
            if process.poll():
                raise PageFailed(_failed(command, process.returncode, seen))

    def end(self) -> None:
        for _, process, _ in reversed(self._staying):
            _interrupt(process)

    def _run(self, command: Command, *, goes_on: bool = False) -> None:
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command.text.removesuffix("&").rstrip()],
            cwd=self._directory,
            # Python writes each line to a terminal at once, but all to a pipe at the end, after standard error.
            env=os.environ | {"REPOSITORY": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        seen: list[str] = []
        while not self._terminal.empty():
            self._terminal.get()
        threading.Thread(target=_read, args=(process, seen, self._terminal), daemon=True).start()
        wanted = [pattern(line) for line in command.output]
        shown: list[str] = []
        until = time.monotonic() + (QUIET if goes_on and not wanted else TIMEOUT)
        has_ended = False
        while wanted or not (command.stays or has_ended):
            try:
                source, line = self._terminal.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                _interrupt(process)
                if not wanted and (command.output or goes_on):
                    return
                raise PageFailed(_unlike(command, wanted, shown, "it goes on")) from None
            if line is not None:
                shown.append(line)
                if wanted and wanted[0].search(line):
                    del wanted[0]
                if command.output and not wanted and (source is process or until > time.monotonic() + IDLE):
                    until = time.monotonic() + IDLE
            elif source is process:
                has_ended = True
                if command.stays or not self._staying or process.wait(ENDING):
                    break
        if wanted:
            _interrupt(process)
            raise PageFailed(_unlike(command, wanted, shown, "it ended"))
        if command.stays:
            self._staying.append((command, process, seen))
            if not command.output:  # nothing says that it has begun
                with suppress(subprocess.TimeoutExpired):
                    process.wait(QUIET)
            self.check_staying()
        elif (code := process.wait(ENDING)) and "# fails" not in command.text:
            raise PageFailed(_failed(command, code, seen))


def _check_packages(extras: str | None, others: list[str], command: Command) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if missing := set(extras.split(",") if extras else ()) - set(known):
        raise PageFailed(f"line {command.line}: no such extra: {', '.join(missing)}")
    for other in others:
        try:
            distribution(other)
        except PackageNotFoundError:
            raise PageFailed(f"line {command.line}: not installed: {other}") from None


def _failed(command: Command, code: int, seen: list[str]) -> str:
    return f"line {command.line}: exit code {code} of: {command.text}\n" + "".join(seen)


def _unlike(command: Command, wanted: list[re.Pattern[str]], seen: list[str], state: str) -> str:
    missing = command.output[len(command.output) - len(wanted)] if wanted else "its end"
    return f"line {command.line}: {state} without {missing!r}: {command.text}\n" + "".join(seen)


def _read(process: subprocess.Popen[str], seen: list[str], terminal: SimpleQueue[Printed]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            seen.append(line)
            terminal.put((process, line))
    terminal.put((process, None))


def _interrupt(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            continue


def do(path: Path) -> None:
    """Do what the page says. `PageFailed` where it does not happen so."""
    with tempfile.TemporaryDirectory() as directory:
        page = Page(Path(directory))
        try:
            for block in blocks(path.read_text()):
                page.do(block)
            page.check_staying()
        finally:
            page.end()


if __name__ == "__main__":
    try:
        do(Path(sys.argv[1]).resolve())
    except PageFailed as failure:
        sys.exit(f"{sys.argv[1]}: {failure}")
