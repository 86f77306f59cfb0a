"""What `test_s3` runs in a process of its own: captures in a bucket become tables there. Prints JSON."""

from __future__ import annotations

import json
import sys


def main(captures: str, tables: str) -> None:
    from amqproxy.pipeline import session, source, storage
    from amqproxy.pipeline.chains import find
    from amqproxy.pipeline.ledger import Ledger
    from amqproxy.pipeline.tables import Tables, stage

    conf = {"spark.driver.memory": "1g", **storage.spark_settings(captures, tables)}
    spark = session.session("local[2]", name="test", conf=conf)
    source.register(spark)
    with Ledger(tables) as ledger:
        new = ledger.find(find(captures)).new
        frames = spark.read.format("amqp").load(new)
        stage(ledger, "frames", frames)
        ledger.commit("ingest", ["frames"], captures=new)
        again = ledger.find(find(captures))
    rows = Tables(tables).read(spark, "frames").groupBy("type").count().collect()
    counts = {row["type"]: row["count"] for row in rows}
    session.stop(spark)
    sys.stdout.write(json.dumps({"counts": counts, "new": again.new, "known": again.known}))


if __name__ == "__main__":
    main(*sys.argv[1:])
