"""What is committed, as a reader finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.pipeline.ledger import CommittedFiles, Ledger, LedgerError, commits, contents

pytestmark = pytest.mark.once


def test_commits_are_read_again_when_there_are_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = CommittedFiles(str(tmp_path))
    assert found.now() == {}
    with Ledger(str(tmp_path)) as held:
        for number in range(3):
            staged = tmp_path / held.staging("messages") / "date=2026-11-23" / "hour=7" / f"part-{number}.parquet"
            staged.parent.mkdir(parents=True)
            staged.touch()
            held.commit("settle", ["messages"])
            assert len(found.now()["messages"]) == number + 1
    monkeypatch.setattr(commits, "contents", None)
    assert len(found.now()["messages"]) == 3


def test_what_is_no_directory_of_tables_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LedgerError, match="cannot be a directory of tables: Not a directory"),
        Ledger(str(tmp_path / "file")),
    ):
        pass
    with Ledger(str(tmp_path / "tables")) as held:
        held.commit("ingest", [])
    commit = next((tmp_path / "tables" / "_pipeline" / "commits").iterdir())
    commit.write_bytes(commit.read_bytes().replace(b'"version":1', b'"version":9'))
    with pytest.raises(LedgerError, match="written by a newer amqproxy"):
        contents(str(tmp_path / "tables"))
    commit.write_text("{")
    with pytest.raises(LedgerError, match="is damaged"):
        contents(str(tmp_path / "tables"))
