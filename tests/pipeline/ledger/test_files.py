"""Files of tables: whole or not there, and what is deleted may be gone already."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.pipeline.ledger import LedgerError
from amqproxy.pipeline.ledger.files import TableFiles

pytestmark = pytest.mark.once


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path))
    files.write("a/b.json", b"first")
    (tmp_path / "a" / "b.json.tmp").write_bytes(b"half")  # where the power was cut
    assert files.names("a") == ["b.json"]
    files.write("a/b.json", b"second")
    assert (files.read("a/b.json"), files.size("a/b.json")) == (b"second", 6)
    files.move("a/b.json", "c/date=2026-11-23/d.json")
    assert files.files_below("c") == ["c/date=2026-11-23/d.json"]
    files.sync(["c/date=2026-11-23/d.json"])
    for _ in range(2):
        files.delete("c/date=2026-11-23/d.json")
        files.delete_directory("c")
    assert (files.names("c"), files.files_below("c")) == ([], [])
    with pytest.raises(FileNotFoundError):
        files.read("c/date=2026-11-23/d.json")


def test_a_file_is_no_directory_of_tables(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="file cannot be a directory of tables: Not a directory"):
        TableFiles(str(tmp_path / "file")).make_root()
