"""The Python examples of docs/pipeline.md, done as they are written, one after the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from amqproxy.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.once]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r'"(?=(captures|state|events|messages|open)/|host-|monday|tuesday)')
"""How a path begins in them."""

CAPTURES = ROOT / "captures"


def test_the_examples(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for directory, name in (("captures", "confirms"), ("host-a", "confirms"), ("host-b", "publish-get-ack")):
        (tmp_path / directory).mkdir()
        shutil.copy(CAPTURES / f"{name}.pcapng", tmp_path / directory)
    for day, capture in (("monday", "host-a"), ("tuesday", "host-b")):
        shutil.copytree(tmp_path / capture, tmp_path / day)
    monkeypatch.setattr(session, "session", lambda: spark)
    page = PLACE.sub(f'"{tmp_path}/', (ROOT / "docs" / "pipeline.md").read_text())  # Spark has a directory of its own
    reading, carrying, settling, linking = BLOCK.findall(page)
    names: dict[str, Any] = {}

    exec(reading, names)
    assert names["frames"].count() > 20
    assert names["events"].count() > 5
    assert "exchange" in capfd.readouterr().out

    exec(carrying, names)
    assert names["second"].count() > 0

    for number, day in enumerate(("monday", "tuesday"), 1):
        events = spark.read.format("amqp").option("table", "events").load(str(tmp_path / day))
        events.write.parquet(str(tmp_path / "events" / str(number)))
    exec(settling, names)
    assert names["second"].messages.count() > 0

    exec(linking, names)
    assert names["deliveries"].columns == names["first"].deliveries.columns
