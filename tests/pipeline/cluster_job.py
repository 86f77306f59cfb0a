"""What `test_cluster` runs in a process of its own: captures that executors read, and write as a table.

Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def where(_: object) -> Any:
    """Which package, and which process, an executor has."""
    import os

    from amqproxy.amqp091 import wire

    return wire.__file__, os.getpid()


def main(master: str, *paths: str) -> None:
    from amqproxy.pipeline import session, source
    from amqproxy.pipeline.frame_table import stage_frames
    from amqproxy.pipeline.ledger import Ledger

    spark = session.session(master, name="test", conf={"spark.driver.memory": "1g"})
    source.register(spark)
    executors = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
    frames = spark.read.format("amqp").option("chains", "file").load(list(paths))
    counts = {row["type"]: row["count"] for row in frames.groupBy("type").count().collect()}
    with Ledger("tables") as ledger:
        stage_frames(spark, ledger, list(paths), chains="file")
        done = ledger.commit("ingest", ["frames"], captures=paths)
        written = sum(map(ledger.rows, done.files["frames"]))
    packages, processes = sorted({each for each, _ in executors}), len(set(executors))
    found = {"counts": counts, "written": written, "packages": packages, "processes": processes}
    session.stop(spark)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
