"""Lines on a terminal: how they are wrapped and coloured."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from amqproxy.cli.terminal_lines import on_terminal, wrapped

CAPTURES = Path(__file__).parents[2] / "captures"
HEAD = "04:08:07.645679 #0   → ch 1    "
LINE = f'{HEAD}queue.declare  exclusive=true arguments={{"x-max-length": 1}}  ⇒ unanswered'


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        (LINE, 200, [LINE]),
        (LINE, 20, [LINE]),
        (
            LINE,
            60,
            [
                f"{HEAD}queue.declare  exclusive=true",
                " " * 23 + 'arguments={"x-max-length": 1}',
                " " * 23 + "⇒ unanswered",
            ],
        ),
        (f"{HEAD}publish  key={'k' * 90} end", 80, [f"{HEAD}publish", f"{'':23}key={'k' * 90}", f"{'':23}end"]),
        (f"{'':23}why: {'word ' * 11}end", 60, [f"{'':23}why:{' word' * 6}", f"{'':28}{'word ' * 5}end"]),
        (f"     ch 1    {'word ' * 12}end", 60, [f"     ch 1   {' word' * 9}", f"{'':13}word word word end"]),
        (
            "  04:08:07.083832 #3 lives ch 1 ← deliver  queue=q 517 µs after publish  ⇒ acked, 307 µs",
            60,
            [
                "  04:08:07.083832 #3 lives ch 1 ← deliver  queue=q 517 µs",
                f"{'':18}after publish  ⇒ acked, 307 µs",
            ],
        ),
        (f"  orders  {'7 ' * 60}", 60, [f"  orders  {'7 ' * 60}"]),
        (f"{'word ' * 12}end", 40, [f"{'word ' * 7}word", f"{'':4}word word word word end"]),
    ],
)  # fmt: skip
def test_lines_are_wrapped_between_words_with_a_hanging_indent(line: str, width: int, lines: list[str]) -> None:
    assert wrapped(line, width) == lines


@given(st.lists(st.text("a日é⇒", min_size=1, max_size=12), min_size=1), st.integers(23 + 2 * 12, 90))
def test_no_word_is_lost_broken_or_beyond_the_edge(words: list[str], width: int) -> None:
    lines = wrapped(HEAD + " ".join(words), width)
    assert " ".join(lines).split() == (HEAD + " ".join(words)).split()
    assert all(cell_len(line) <= width for line in lines)


def test_what_is_no_terminal_gets_lines_as_they_are() -> None:
    assert on_terminal(str) is str


def shown(*arguments: str, **environment: str) -> str:
    """Output of a command on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    without = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "amqproxy", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env=without | {"TERM": "xterm"} | environment,
    )
    os.close(theirs)
    found = b""
    try:
        while data := os.read(ours, 65536):
            found += data
    except OSError:  # EIO: the process has closed its end
        pass
    os.close(ours)
    assert process.wait(30) == 0
    return found.decode().replace("\r\n", "\n")


@pytest.mark.once
@pytest.mark.parametrize(
    "options", [(), ("--messages",), ("--findings",), ("--follow", "0"), ("--messages", "--jobs", "2")]
)
def test_captures_on_80_columns(options: tuple[str, ...]) -> None:
    text = shown("decode", *options, str(CAPTURES / "confirms.pcapng"), NO_COLOR="1")
    assert "\x1b" not in text
    assert max(map(cell_len, text.splitlines())) <= 80
    assert len(text.splitlines()) > 4


@pytest.mark.once
def test_colours_of_direction_method_and_outcome() -> None:
    lines = shown("decode", "--messages", str(CAPTURES / "confirms.pcapng")).splitlines()
    assert (
        "04:08:07.648738 #0   \x1b[36m→\x1b[0m ch 1    \x1b[1mconfirm.select\x1b[0m  ⇒ confirm.select-ok, 66.8 µs"
        in lines
    )
    assert "04:08:07.645460 #0   \x1b[35m←\x1b[0m ch 1    \x1b[1mchannel\x1b[0m opened, 319 µs" in lines
    assert "\x1b[33m                       bytes  ⇒ nacked, 85.9 µs\x1b[0m" in lines


@pytest.mark.once
def test_json_is_neither_wrapped_nor_coloured() -> None:
    lines = shown("decode", "--json", str(CAPTURES / "confirms.pcapng")).splitlines()
    assert all(line.startswith("{") and line.endswith("}") for line in lines)
