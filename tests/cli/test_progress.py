"""How far a capture has been read, on terminals."""

import gzip
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from amqproxy.cli import progress
from amqproxy.cli.failure import FAILED
from tests.cli.outcome import Amqproxy
from tests.cli.process import COMMAND, DEADLINE

CAPTURE = Path(__file__).parents[2] / "captures" / "confirms.pcapng"


def terminals(*names: str) -> Callable[[object], bool]:
    return lambda stream: stream in [getattr(sys, name) for name in names]


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)


@pytest.mark.usefixtures("_at_once")
def test_the_line_is_gone_in_the_end(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = amqproxy("decode", "--json", str(CAPTURE))
    monkeypatch.setattr(progress, "is_terminal", terminals("stderr"))
    code, out, err = amqproxy("decode", "--json", str(CAPTURE))
    assert (code, out) == (0, usual.out)
    assert "100 % of " in err
    assert err.endswith(progress.ERASE)
    assert "\n" not in err


@pytest.mark.usefixtures("_at_once")
def test_output_on_the_same_terminal_has_its_lines_for_itself(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    with progress.Progress([CAPTURE]) as one:
        assert not one.is_in_the_way
        one.advance(100)
        assert one.is_in_the_way
        one.clear()
        assert not one.is_in_the_way
        one.advance(100)
    assert not one.is_in_the_way
    assert capfd.readouterr().err.count(progress.ERASE) == 4


@pytest.mark.usefixtures("_at_once")
def test_it_is_of_all_files_as_they_are_on_the_disk(
    amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "is_terminal", terminals("stderr"))
    data = CAPTURE.read_bytes()
    for number in range(3):
        (tmp_path / f"{number}.pcapng.gz").write_bytes(gzip.compress(data))
    other = tmp_path / "other"
    other.write_bytes(data)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    shown = re.findall(r"( ?\d+) % of (.*?)\r", amqproxy("decode", str(tmp_path), str(other)).err)
    third = (tmp_path / "0.pcapng.gz").stat().st_size
    assert [int(share) for share, _ in shown] == [each * 100 // size for each in (third, 2 * third, 3 * third, size)]
    assert all(f"{tmp_path} and 1 more".startswith(name) for _, name in shown)


@pytest.mark.usefixtures("_at_once")
def test_of_a_pipe_it_is_what_has_been_read(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "is_terminal", terminals("stderr"))
    with progress.Progress([Path("-")]) as one:
        one.advance(1_234_567_890)
    assert capfd.readouterr().err == f"{progress.ERASE}1,234.6 MB of standard input{progress.ERASE}"


@pytest.mark.usefixtures("_at_once")
def test_nothing_where_there_is_no_terminal_or_no_file(
    amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert amqproxy("decode", str(CAPTURE)).err == ""
    monkeypatch.setattr(progress, "is_terminal", terminals("stderr"))
    for file, error in ((tmp_path / "empty", "it is empty"), (tmp_path / "none", "cannot be opened")):
        if error == "it is empty":
            file.touch()
        code, out, err = amqproxy("decode", str(file))
        assert (code, out) == (FAILED, "")
        assert error in err
        assert "%" not in err


@pytest.mark.usefixtures("_at_once")
def test_an_error_has_its_line_for_itself(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "is_terminal", terminals("stderr"))
    cut = tmp_path / "cut"
    cut.write_bytes(CAPTURE.read_bytes()[:-5])
    err = amqproxy("decode", str(cut)).err
    assert f"{progress.ERASE}amqproxy: {cut}: " in err


@pytest.mark.parametrize(
    ("term", "stream_is", "expected"), [("xterm", True, True), ("dumb", True, False), ("xterm", False, False)]
)
def test_terminals(term: str, stream_is: bool, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: stream_is)
    assert progress.is_terminal(stream) == expected
    assert not progress.is_terminal(None)


def test_a_real_terminal() -> None:
    ours, theirs = pty.openpty()
    program = (
        "import sys; sys.argv[0] = 'amqproxy'; from amqproxy.cli import main, progress; progress.INTERVAL = 0; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "decode", str(CAPTURE)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 1000)
        except OSError:  # its other end is closed
            break
    os.close(ours)
    assert process.wait(DEADLINE) == 0
    assert b"100 % of " in shown
    assert shown.endswith(progress.ERASE.encode())


def test_none_when_piped() -> None:
    done = subprocess.run([*COMMAND, "decode", str(CAPTURE)], capture_output=True, check=True)
    assert done.stderr == b""
