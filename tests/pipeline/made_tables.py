"""Tables that jobs make of captures, as sorted texts, to compare one run with several."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from amqproxy.pipeline import jobs
from amqproxy.pipeline import tables as on_disk
from amqproxy.pipeline.ledger import Ledger, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = jobs.Settings(age_ns=None)


def rows(path: Path, name: str) -> list[str]:
    """A table, but for which batch wrote a row; and each row in the hour of its directory."""
    found: list[str] = []
    for file in contents(str(path)).files.get(name, []):
        for row in pq.ParquetFile(path / file).read().to_pylist():
            row.pop("batch")
            found.append(json.dumps({**row, "at": file.rpartition("/")[0]}, default=str, sort_keys=True))
    return sorted(found)


def tables(path: Path) -> dict[str, list[str]]:
    return {name: rows(path, name) for name, files in sorted(contents(str(path)).files.items()) if files}


def work(spark: SparkSession, path: Path, files: list[str], *, counts: bool = True) -> list[jobs.Done]:
    with Ledger(str(path)) as held:
        done = [jobs.ingest(spark, held, held.find(files).new, SETTINGS), jobs.settle(spark, held, SETTINGS)]
        done.append(jobs.link(spark, held, SETTINGS))
        return [*done, jobs.rollup(spark, held)] if counts else done


class PowerCut(BaseException):
    """Nothing that comes after it is done."""


def cut_at(monkeypatch: pytest.MonkeyPatch, table: str, time: int) -> None:
    """Cut the power when the table has been staged for that time."""
    original: Callable[..., None] = on_disk.stage
    left = [time]

    def stage(ledger: Ledger, name: str, *rest: Any, **more: Any) -> None:
        original(ledger, name, *rest, **more)
        left[0] -= name == table
        if left[0] == 0:
            raise PowerCut

    for module in (jobs, on_disk):
        monkeypatch.setattr(module, "stage", stage)
