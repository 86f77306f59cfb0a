"""What is committed, as a reader finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.pipeline.ledger import Ledger, LedgerError, contents

pytestmark = pytest.mark.once


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
