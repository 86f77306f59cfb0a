"""`amqproxy top` beside a proxy, on a terminal of 80 columns and 24 rows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
import pytest

from tests.cli.process import connected, port_in, start, until

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

COLUMNS, ROWS = 80, 24


class Terminal:
    """A program on a terminal."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._poll = select.poll()  # takes descriptors above 1,023 too
        self._poll.register(ours, select.POLLIN)
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """The screen, once this holds of it."""
        end = time.monotonic() + 60
        while not holds(self.lines):
            assert time.monotonic() < end, "\n".join(self.lines)
            if self._poll.poll(100):
                self._stream.feed(os.read(self._ours, 65536))
        return self.lines

    def until_shown(self, text: str) -> list[str]:
        return self.until(lambda lines: any(text in line for line in lines))


@contextmanager
def on_terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "amqproxy", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=environment | {"TERM": "xterm-256color"},
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """The control socket of a proxy, and its port."""
    path, config = tmp_path / "control.sock", tmp_path / "amqproxy.toml"
    config.write_text(
        f'upstream = "broker"\n[[listen]]\naddress = "127.0.0.1:0"\n[control]\npath = "{path}"\n'
        '[metrics]\naddress = "127.0.0.1:0"\n'
    )
    process = start("run", "--config", str(config))
    try:
        yield path, port_in(until(process, "listening"))
    finally:
        process.kill()
        process.communicate()


def test_what_80_columns_and_24_rows_show(proxy: tuple[Path, int]) -> None:
    path, port = proxy
    with connected(port) as connection, on_terminal("top", "--socket", str(path), "--interval", "0.2") as terminal:
        channel = connection.channel()
        channel.queue_declare("orders", exclusive=True)
        channel.basic_consume("orders", lambda *_: None, consumer_tag="ctag-of-mine")
        terminal.until_shown("1 of 1 connections, by session")
        terminal.until_shown("Quit")
        lines = terminal.until_shown("consumers 1")
        assert lines[0].startswith("up ")
        assert "connections 1" in lines[0]
        assert lines[1].startswith("published ")
        assert lines[2] == " 1 Connections  2 Channels  3 Consumers  4 Topology"
        assert lines[4].split()[:6] == ["▲session", "name", "user", "state", "client/s", "server/s"]
        assert lines[-1].split() == [
            "⏎",
            "Open",
            "s",
            "Sort",
            "r",
            "Reverse",
            "/",
            "Filter",
            "esc",
            "Back",
            "?",
            "Help",
            "q",
            "Quit",
        ]

        terminal.press("\r")
        lines = terminal.until_shown("ctag-of-mine")
        assert any(line.startswith("user        guest, virtual host /") for line in lines)
        terminal.press("\x1b")
        terminal.until_shown("▲session")

        terminal.press("?")
        lines = terminal.until_shown("Keys of amqproxy top")
        assert any("quit" in line for line in lines)
        assert len(lines[-1]) <= COLUMNS
        terminal.press("3")
        terminal.until_shown("1 of 1 consumers")
        terminal.press("q")
