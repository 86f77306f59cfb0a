"""An export is there as a whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amqproxy.export.output_file import FileExists, OutputFile


def write(path: Path, data: bytes, then: Callable[[], object], *, replaces: bool = True) -> None:
    with OutputFile(path, replaces=replaces) as file:
        file.write(data)
        then()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_file_is_there_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with OutputFile(path) as file:
        file.write(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write(path, b"half of it", then=interrupt)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(FileExists, match="is there already"):
        OutputFile(path)
    with OutputFile(path, replaces=True) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after"
    with pytest.raises(FileExists, match="is a directory"):
        OutputFile(tmp_path, replaces=True)


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(FileExists):
        write(path, b"ours", then=lambda: path.write_bytes(b"theirs"), replaces=False)
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    path, link = tmp_path / "out.csv", tmp_path / "link.csv"
    path.write_bytes(b"before")
    link.symlink_to(path)
    with pytest.raises(FileExists, match=r"link\.csv is there already"):
        OutputFile(link)
    with OutputFile(link, replaces=True) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert path.read_bytes() == b"after"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with OutputFile(pipe) as file:
        file.write(b"all of it")
    assert os.read(reader, 100) == b"all of it"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 125 + ".csv")
    with OutputFile(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), OutputFile(tmp_path / "none" / "out.csv"):
        pass


def test_where_no_file_can_be_is_known_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none" / "out.csv", tmp_path / "file" / "out.csv"):
        with pytest.raises(OSError, match=r"No such file|Not a directory"):
            OutputFile(path)
