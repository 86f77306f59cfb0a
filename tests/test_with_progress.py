"""What is said of a command that says little."""

import io
import sys

import pytest

from tests import with_progress
from tests.with_progress import Shown, run, understood

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting pika>=1.3.2 (from amqproxy==0.1.0)\n", "looking for pika>=1.3.2"),
        ("  Downloading grpcio_tools-1.76.0-cp311.whl (2.6 MB)\n", "fetching grpcio_tools (2.6 MB)"),
        ("  Using cached pika-1.3.2-py3-none-any.whl (155 kB)\n", "fetching pika (155 kB)"),
        ("  Downloading pika-1.3.2-py3-none-any.whl.metadata (13 kB)\n", "fetching pika (13 kB)"),
        ("  Installing build dependencies: started\n", "installing what the build needs"),
        ("  Building editable for amqproxy (pyproject.toml): started\n", "building amqproxy"),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        (
            "amqproxy: compiling 20 of 42 modules: amqproxy.broker.router\n",
            "compiling 20 of 42 modules: amqproxy.broker.router",
        ),
        ("Requirement already satisfied: pika\n", None),
        ("", None),
    ],
)
def test_lines_that_are_understood(line: str, said: str | None) -> None:
    assert understood(line) == said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_takes_long_is_said_again_every_two_seconds() -> None:
    now = 0.0
    stream = io.StringIO()
    shown = Shown("installing", stream, clock=lambda: now)
    shown.take("Collecting pika\n")
    for _ in range(50):
        now += 0.1
        shown.look()
    shown.take("Collecting pika\n")
    shown.end(0)
    assert stream.getvalue().splitlines() == [
        "amqproxy: installing …",
        "amqproxy: installing: looking for pika …",
        "amqproxy: installing: looking for pika (2 s) …",
        "amqproxy: installing: looking for pika (4 s) …",
        "amqproxy: installing: done, 5.0 s",
    ]


def test_on_a_terminal_it_is_one_line() -> None:
    stream = Terminal()
    shown = Shown("installing", stream, clock=lambda: 0.0)
    shown.take("Collecting pika\n")
    shown.end(1)
    assert stream.getvalue() == (
        "\r\033[Kamqproxy: installing …\r\033[Kamqproxy: installing: looking for pika …"
        "\r\033[Kamqproxy: installing: failed with exit code 1, 0.0 s\n"
    )


def test_a_silent_command_and_the_file_of_the_build_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said while the command runs: it ends once all of that was shown."""
    monkeypatch.setattr(with_progress, "INTERVAL", 0.0)
    program = """
import os, pathlib, sys
pathlib.Path(os.environ["AMQPROXY_PROGRESS"]).write_text("amqproxy: building the page\\n")
sys.stdin.read()
print("its output")
sys.exit(3)
"""
    stream = io.StringIO()
    assert run("working", [sys.executable, "-c", program], stream) == 3
    lines = stream.getvalue().splitlines()
    assert lines[0] == "amqproxy: working …"
    assert "amqproxy: working: building the page …" in lines
    assert lines[-1] == "its output"


def test_what_succeeds_shows_no_output() -> None:
    stream = io.StringIO()
    assert run("working", [sys.executable, "-c", "print('its output')"], stream) == 0
    assert "its output" not in stream.getvalue()
