"""What `test_cluster` runs in a process of its own: captures read by executors. Prints what it found as JSON."""

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

    spark = session.session(master, name="test", conf={"spark.driver.memory": "1g"})
    source.register(spark)
    executors = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
    frames = spark.read.format("amqp").option("chains", "file").load(list(paths))
    counts = {row["type"]: row["count"] for row in frames.groupBy("type").count().collect()}
    found = {"counts": counts, "packages": sorted({each for each, _ in executors}), "processes": len(set(executors))}
    session.stop(spark)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
