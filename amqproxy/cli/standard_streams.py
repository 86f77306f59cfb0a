"""Standard input, output and error: always open, and able to encode any text."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper
from pathlib import Path

ESCAPING = "amqproxy.escaping"
"""The handler of encoding errors that writes U+2192 as \\u2192, which is what JSON calls it too."""

LINGER = 1.0
"""Time limit of writing to standard error, in seconds."""


def prepare() -> None:
    """Open the standard streams that the parent process closed, since the first socket would take their descriptor.

    Characters that the terminal's encoding lacks are escaped.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    codecs.register_error(ESCAPING, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ESCAPING)


def print_error(text: str) -> None:
    """Print a line on standard error, or nothing if that fails."""
    from amqproxy.process.line_writer import LineWriter

    writer = LineWriter(sys.stderr, "{} lines were lost".format)
    for line in text.split("\n"):
        writer.write(line)
    writer.close(LINGER)


def forget_output() -> None:
    """Discard the buffered output, so that Python does not fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    data = text.encode("utf-16-be", "surrogatepass")
    units = [data[at : at + 2] for at in range(0, len(data), 2)]
    return "".join([f"\\u{unit.hex()}" for unit in units]), error.end
