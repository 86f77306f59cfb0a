"""The list of committed files: what DuckDB and pandas read is right, also after a driver was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

import duckdb
import pyarrow.dataset as ds

from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.ledger.manifests import MANIFEST

pytestmark = pytest.mark.once

KILLED = """
import os, signal, sys
import pyarrow as pa, pyarrow.parquet as pq
from amqproxy.pipeline.ledger import Ledger

def stage(held, rows):
    directory = f"{held.path}/{held.staging('messages')}/date=2026-11-23/hour=7"
    os.makedirs(directory)
    pq.write_table(pa.table({"number": rows}), f"{directory}/part-0.parquet")

with Ledger(sys.argv[1]) as held:
    for rows in ([1, 2], [3]):
        stage(held, rows)
        held.commit("settle", ["messages"])
    stage(held, [1, 2, 3])
    held._sweep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    held.commit("compact", ["messages"], removed=held.contents.files["messages"])
"""


def test_after_a_kill_each_row_is_read_once(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tables)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert numbers(f"'{tables}/messages/**/*.parquet'") == [1, 1, 2, 2, 3, 3], "what was to be deleted is there"
    assert by_duckdb(tables / "messages") == [1, 2, 3]
    with Ledger(str(tables)):
        pass
    assert by_duckdb(tables / "messages") == [1, 2, 3]
    assert numbers(f"'{tables}/messages/**/*.parquet'") == [1, 2, 3]
    files = (tables / "messages" / MANIFEST).read_text().splitlines()
    found = ds.dataset(files, format="parquet", partitioning="hive").to_table().to_pydict()
    assert (sorted(found["number"]), set(found["hour"])) == ([1, 2, 3], {7})


def by_duckdb(table: Path) -> list[int]:
    """The query of docs/pipeline.md."""
    listed = f"(SELECT string_split(rtrim(content, chr(10)), chr(10)) FROM read_text('{table}/{MANIFEST}'))"
    return numbers("getvariable('files')", f"SET VARIABLE files = {listed}")


def numbers(files: str, *before: str) -> list[int]:
    with duckdb.connect() as database:
        for text in before:
            database.execute(text)
        found = database.execute(f"SELECT number FROM read_parquet({files}, hive_partitioning = true) ORDER BY number")
        return [number for (number,) in found.fetchall()]
