"""The hash of both engines: texts of each length, numbers, nothing, and columns after one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines]


def hashes(spark: SparkSession, *columns: str, rows: str = "explode(sequence(0, 70)) AS n") -> list[int]:
    """The hash of these columns in each row, where `n` counts them."""
    text = f"SELECT xxhash64({', '.join(columns)}) AS hash FROM (SELECT {rows}) ORDER BY n"
    return [row.hash for row in spark.sql(text).collect()]


def digest(found: list[int]) -> int:
    """One number for many, whose order matters."""
    total = 0
    for each in found:
        total = (total * 31 + each) % (1 << 61)
    return total


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("substr(repeat('abcdefghij', 8), 1, n)",), 149493592334639002),
        (("concat('ä→', CAST(n AS STRING))",), 53659923137724079),
        (("CAST(n - 35 AS INT)",), 681929295801899722),
        (("CAST(n - 35 AS BIGINT) * 12345678901",), 995854663720940795),
        (("n > 35",), 538254912261669705),
        (
            ("CASE WHEN n % 3 > 0 THEN CAST(n AS STRING) END", "CASE WHEN n % 2 > 0 THEN CAST(n AS INT) END"),
            1127442500160996737,
        ),
        (("NULL", "'/'", "repeat('x', n * 7)", "CAST(n AS BIGINT)"), 404644400096288049),
    ],
)
def test_it_is_the_same_on_both_engines(spark: SparkSession, columns: tuple[str, ...], expected: int) -> None:
    assert digest(hashes(spark, *columns)) == expected
