"""Lines to a file that may take none: in order, bounded, counted, and never waited for."""

import errno
import io
import os
import threading
from pathlib import Path
from typing import TextIO

import pytest

from amqproxy.process import line_writer
from amqproxy.process.line_writer import LONGEST_LINE, LineWriter

PATIENCE = 10.0


def notice(count: int) -> str:
    return f"{count} dropped"


class Stream(io.StringIO):
    """Takes what it is given only once it is `opened`, and fails with `error` if there is one."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.opened.set()
        self.reached = threading.Event()
        self.error: Exception | None = None

    def write(self, text: str) -> int:
        self.reached.set()
        self.opened.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return super().write(text)


def test_lines_in_order() -> None:
    stream = Stream()
    writer = LineWriter(stream, notice)
    for number in range(1000):
        writer.write(str(number))
    assert writer.flush(PATIENCE)
    assert stream.getvalue().split() == [str(number) for number in range(1000)]
    assert writer.dropped == 0


def test_lines_without_a_reader_are_bounded_by_number() -> None:
    stream = Stream()
    stream.opened.clear()
    writer = LineWriter(stream, notice, most_lines=3)
    writer.write("first")
    assert stream.reached.wait(PATIENCE)  # the thread is stuck with it
    for number in range(10):
        writer.write(str(number))
    assert writer.dropped == 7
    assert not writer.flush(0)
    stream.opened.set()
    assert writer.flush(PATIENCE)
    assert stream.getvalue().splitlines() == ["first", "0", "1", "2", "7 dropped"]
    writer.write("after")
    assert writer.flush(PATIENCE)
    assert stream.getvalue().splitlines()[-1] == "after"
    assert writer.dropped == 7


def test_lines_without_a_reader_are_bounded_by_bytes() -> None:
    stream = Stream()
    stream.opened.clear()
    writer = LineWriter(stream, notice, most_bytes=10)
    writer.write("first")
    assert stream.reached.wait(PATIENCE)
    for _ in range(3):
        writer.write("1234")
    writer.write("12345")
    assert writer.dropped == 2
    stream.opened.set()
    assert writer.flush(PATIENCE)
    assert stream.getvalue().splitlines() == ["first", "1234", "1234", "2 dropped"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), BrokenPipeError(), ValueError("closed")])
def test_what_cannot_be_written_is_counted_and_reported_later(error: Exception) -> None:
    stream = Stream()
    stream.error = error
    writer = LineWriter(stream, notice)
    for _ in range(5):
        writer.write("lost")
    assert writer.flush(PATIENCE)
    writer.write("lost")
    assert writer.flush(PATIENCE)
    assert writer.dropped == 6
    stream.error = None
    writer.write("taken")
    assert writer.flush(PATIENCE)
    assert stream.getvalue().splitlines() == ["6 dropped", "taken"]
    assert writer.dropped == 6


def test_a_line_that_is_written_in_part_is_ended_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    written = b""
    room = 9

    def write(descriptor: int, data: bytes) -> int:
        nonlocal written, room
        if not room:
            raise OSError(errno.ENOSPC, "full")
        taken = data[:room]
        room -= len(taken)
        written += taken
        return len(taken)

    monkeypatch.setattr(line_writer.os, "write", write)
    with Path(os.devnull).open("w") as stream:
        writer = LineWriter(stream, notice)
        writer.write("one\ntwo\nthree")  # one line to the writer
        assert writer.flush(PATIENCE)
        assert (written, writer.dropped) == (b"one\ntwo\nt", 1)
        room = 1000
        writer.write("four")
        assert writer.flush(PATIENCE)
    assert written == b"one\ntwo\nt\n1 dropped\nfour\n"


def test_a_descriptor_that_does_not_block() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as reader, open(writing, "w") as stream:  # noqa: PTH123
        writer = LineWriter(stream, notice)
        for _ in range(40):
            writer.write("x" * 9_999)
        assert not writer.flush(0.01)
        assert len(reader.read(400_000)) == 400_000
        assert writer.flush(PATIENCE)
    assert writer.dropped == 0


def test_a_long_line_is_cut() -> None:
    stream = Stream()
    writer = LineWriter(stream, notice)
    writer.write("x" * LONGEST_LINE)
    writer.write("é" * LONGEST_LINE * 2)
    assert writer.flush(PATIENCE)
    for line in stream.getvalue().splitlines():
        assert line.endswith(" [cut]")
        assert len(line.encode()) <= LONGEST_LINE


@pytest.mark.parametrize(
    ("encoding", "line"), [("ascii", b"\\xe9\\u2026\\udcff\n"), ("latin-1", b"\xe9\\u2026\\udcff\n")]
)
def test_what_the_stream_cannot_hold_is_escaped(encoding: str, line: bytes, tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w", encoding=encoding) as stream:
        writer = LineWriter(stream, notice)
        writer.write("é…\udcff")
        assert writer.close(PATIENCE)
    assert file.read_bytes() == line


@pytest.mark.parametrize("is_there", [True, False])
def test_no_stream(is_there: bool) -> None:
    stream: TextIO | None = io.StringIO() if is_there else None
    if stream is not None:
        stream.close()
    writer = LineWriter(stream, notice)
    writer.write("lost")
    assert writer.flush(PATIENCE)
    assert writer.dropped == 1


def test_after_its_end_it_takes_nothing() -> None:
    stream = Stream()
    writer = LineWriter(stream, notice)
    writer.write("taken")
    assert writer.close(PATIENCE)
    writer.write("lost")
    assert (stream.getvalue(), writer.dropped) == ("taken\n", 1)
