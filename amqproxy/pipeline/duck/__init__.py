"""The pipeline's jobs on DuckDB, in this process: the same SQL text as on Spark, without a JVM.

    dialect   Spark's SQL → DuckDB's; translations keeps the results
    functions what DuckDB's SQL lacks
    session   `DuckSession`, in place of a `SparkSession`
    rows      `DuckRows`, in place of a `DataFrame`
    processes work spread over the cores

Both classes have the part of Spark's interface that the jobs use, and a session is an `Engine`: so a job does not know
on which engine it runs.
"""

from amqproxy.pipeline.duck.rows import DuckRows
from amqproxy.pipeline.duck.session import DuckSession

__all__ = ["DuckRows", "DuckSession"]
