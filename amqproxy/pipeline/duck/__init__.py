"""The pipeline's jobs on DuckDB, in this process: the same SQL text as on Spark, without a JVM.

    dialect   Spark's SQL → DuckDB's
    session   `DuckSession`, in place of a `SparkSession`
    rows      `DuckRows`, in place of a `DataFrame`
    captures  captures → rows, in several processes if they are large

Both classes have the part of Spark's interface that the jobs use, so that a job does not know on which engine it runs.
"""

from typing import Any

from amqproxy.pipeline.duck.rows import DuckRows
from amqproxy.pipeline.duck.session import DuckSession

__all__ = ["DuckRows", "DuckSession", "duck"]


def duck(value: object) -> Any:
    """Return a session or rows of DuckDB; `None` if they are Spark's, as their type says."""
    return value if isinstance(value, DuckRows | DuckSession) else None
