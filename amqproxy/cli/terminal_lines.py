"""Lines for people on a terminal: wrapped between words, with a hanging indent, and colours of direction and method."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len

from amqproxy.process.log import is_coloured
from amqproxy.taps.text import RESET

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.views.view import View

T = TypeVar("T")

LEAST_WIDTH = 40
"""Terminals narrower than this wrap lines themselves."""

COLOURS = {"→": "\x1b[36m", "←": "\x1b[35m"}
"""Colours of the two directions, as in a dialogue."""

BOLD = "\x1b[1m"

_COLOUR = re.compile(r"\x1b\[\d+m")
_PARTS = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d\.\d{6} #\d+ *)(?P<arrow>[→←])(?P<channel> (?:ch \d+)? *)(?P<method>[^\s:]+)"
)
_STEP = re.compile(r"(?P<time>  \d\d:\d\d:\d\d\.\d{6} #.*? )(?P<arrow>[→←])(?P<channel> )(?P<method>\w+)")
"""A step in the life of a message."""
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{6} #")
_CHANNEL_COLUMN = 23
_MARGIN = re.compile(r" +(?:why: |do:  |│ |ch \d+ +)")
_STEP_INDENT = 18
_PROSE_INDENT = 4
_WORDS = re.compile(r" *(?:⇒ )?[^ ]+")
"""Words with the spaces before them; an arrow stays with the outcome that it announces."""


def on_terminal(render: Callable[[T], str]) -> Callable[[T], str]:
    """Return `render` with its lines laid out for standard output; `render` itself if that is not a terminal."""
    if not sys.stdout.isatty():
        return render
    has_colours = is_coloured(sys.stdout)

    def laid_out(record: T) -> str:
        width = shutil.get_terminal_size().columns
        return "\n".join(_laid_out(line, width, has_colours=has_colours) for line in render(record).split("\n"))

    return laid_out


class TerminalView:
    """A view with its lines laid out for standard output."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._lay_out = on_terminal(str)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        return map(self._lay_out, self._view.lines(decoded))

    def finish(self) -> Iterator[str]:
        return map(self._lay_out, self._view.finish())


def _laid_out(line: str, width: int, *, has_colours: bool) -> str:
    """Wrap a line, and colour its direction and method unless it has a colour as a whole."""
    found = _COLOUR.match(line)
    colour = found.group() if found else ""
    lines = wrapped(_COLOUR.sub("", line), width)
    if colour:
        return "\n".join(f"{colour}{each}{RESET}" for each in lines)
    if has_colours and (parts := _PARTS.match(lines[0]) or _STEP.match(lines[0])):
        time, arrow, channel, method = parts.groups()
        lines[0] = f"{time}{COLOURS[arrow]}{arrow}{RESET}{channel}{BOLD}{method}{RESET}{lines[0][parts.end() :]}"
    return "\n".join(lines)


def wrapped(line: str, width: int) -> list[str]:
    """Break a line between words to fit `width` columns; longer words, and rows of tables, stay whole."""
    indent = _indent_of(line)
    if indent is None or width < LEAST_WIDTH or cell_len(line) <= width:
        return [line]
    lines = [""]
    used = 0
    for word in _WORDS.findall(line):
        size = cell_len(word)
        if used > indent and used + size > width:
            word = word.lstrip()
            lines.append(" " * indent)
            used, size = indent, cell_len(word)
        lines[-1] += word
        used += size
    return lines


def _indent_of(line: str) -> int | None:
    """Return the column where further lines begin; `None` for rows of tables."""
    if _TIME.match(line):
        return _CHANNEL_COLUMN
    if _STEP.match(line):
        return _STEP_INDENT
    if margin := _MARGIN.match(line):
        return margin.end()
    return None if "  " in line else _PROSE_INDENT
