"""What queries take to be generated in a name, beside what rules do."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import SparkSession

from amqproxy.pipeline.generated_names import alike, alike_in_json
from amqproxy.rules.matching.generated_names import shape_of

pytestmark = pytest.mark.once

NAMES = (
    *("orders", "orders-v2", "TempQueue", "hexTempQueue-8f14e45f", "amq.gen-short", "a.amq.gen-", ""),
    *("amq.gen-JzTY20BRgKO-HjmUJj0wLg", "amq.gen-AzTY20BRgKO-HjmUJj0wLg", "app.amq.gen-JzTY20BRgKO-HjmUJj0wLg"),
    *("amq.rabbitmq.reply-to.g1h2", "amq.rabbitmq.reply-to.xyz"),
    *("TempQueue8f14e45f-ceea-467f-a0e6-c4a5ad4e2f3b", "TempQueue0cc175b9-c0f1-46b6-831c-399e26977266"),
    *("reply.8f14e45f-ceea-467f-a0e6-c4a5ad4e2f3b", "reply.0cc175b9-c0f1-46b6-831c-399e26977266"),
    *("key-1e5f7a9b3c2d4e6f", "key-2e5f7a9b3c2d4e6f", "at-20260131", "at-20260201"),
)


@pytest.mark.both_engines
def test_names_are_alike_where_rules_say_so_in_json_too(spark: SparkSession) -> None:
    arguments = [json.dumps({"queue": name, "passive": True}) for name in NAMES]
    rows = spark.createDataFrame(pa.table({"name": list(NAMES), "arguments": arguments}))
    text = f"SELECT name, {alike('name')} AS plain, {alike_in_json('arguments')} AS within FROM {{rows}}"
    shown = spark.sql(text, rows=rows)
    found = {row.name: (row.plain, json.loads(row.within)["queue"]) for row in shown.collect()}
    for one in NAMES:
        for other in NAMES:
            expected = shape_of(one, certain=True) == shape_of(other, certain=True)
            assert [a == b for a, b in zip(found[one], found[other], strict=True)] == [expected] * 2, (one, other)
