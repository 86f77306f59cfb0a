"""Little is put into one partition; what is large, or of unknown size, is left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.pipeline import small_input
from amqproxy.pipeline.small_input import in_one_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once


def test_little_is_put_together(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": range(1000)}), tmp_path / "some.parquet")
    some = spark.read.parquet(str(tmp_path))
    nothing = spark.createDataFrame([], some.schema).where("false")
    small = in_one_partition(some.repartition(3), nothing)
    assert small is not None
    assert [each.rdd.getNumPartitions() for each in small] == [1, 1]
    assert [each.count() for each in small] == [1000, 0]
    monkeypatch.setattr(small_input, "SMALL_BYTES", 1000)
    assert in_one_partition(some) is None


def test_what_is_of_unknown_size_may_be_large(spark: SparkSession) -> None:
    assert in_one_partition(spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "a INT")) is None
