"""Fields of message bodies, as counted by the source."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import FIELDS
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.lives import WHO_FOUND

_GIVEN = {**{name: f"w.`{name}`" for name in WHO_FOUND}, "path": "e.text", "holds": "e.outcome"}
_FIELDS = f"""
    SELECT {{hint}} {", ".join(f"{_GIVEN.get(name, f'e.`{name}`')} AS `{name}`" for name in FIELDS.fieldNames())}
    FROM {{events}} e LEFT JOIN {{who}} w ON w.connection_id = e.connection_id
    WHERE e.type = 'field'
"""


def fields(batch: Batch, who: DataFrame) -> DataFrame:
    """Return the rows of `schema.FIELDS`."""
    return batch.sql(_FIELDS, who=who)
