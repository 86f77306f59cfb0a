"""Which publish each delivery came from, on whichever connections: by message_id, else by what is in it.

Content is recognised by its virtual host and message_id; without one, by its exchange, routing key and digest. What is
alike is distinguished by its place: the first that a queue delivers is the first that was published, and so on.
Counting begins anew when nothing alike was published for the window, and a delivery that comes later than that after
its publish is linked to none. What was delivered before is linked only if nothing alike had been published since.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.carry import PUBLISHED, SEEN

REFERENCE = ("published_connection_id", "published_channel", "published_epoch", "published_number", "published_ns")
"""The columns that say which publish a delivery came from."""

_OF_EVENT = "connection_id, channel, epoch, number, ts_ns, seq"

_CONTENTS = f"""
    SELECT chain, content_key, {_OF_EVENT}, rank, queue_key,
        CASE WHEN rank = 0 OR redelivered THEN 0L ELSE 1L END AS is_first,
        CASE WHEN rank = 0 THEN 0L ELSE 1L END AS seen,
        CAST(NULL AS BIGINT) AS occurrence
    FROM (
        SELECT {{hint}} e.chain, e.connection_id, e.channel, e.epoch, e.number, e.ts_ns, e.seq, e.redelivered,
            CASE WHEN e.type = 'publish' THEN 0 ELSE 2 END AS rank,
            CASE WHEN e.message_id <> '' THEN xxhash64(w.virtual_host, e.message_id, e.size)
                WHEN e.digest IS NOT NULL THEN xxhash64(w.virtual_host, e.exchange, e.routing_key, e.digest)
            END AS content_key,
            CASE WHEN e.type <> 'publish' THEN xxhash64(
                w.virtual_host, coalesce(e.queue, concat_ws(' ', e.connection_id, e.channel, e.consumer_tag))
            ) END AS queue_key
        FROM {{events}} e LEFT JOIN {{who}} w ON w.connection_id = e.connection_id
        WHERE e.type IN ('publish', 'deliver', 'get')
    )
    WHERE content_key IS NOT NULL
    UNION ALL
    SELECT chain, content_key, {_OF_EVENT}, CASE WHEN type = '{PUBLISHED}' THEN 0 ELSE 1 END, queue_key,
        CASE WHEN type = '{PUBLISHED}' THEN 0L ELSE occurrence END,
        CASE WHEN type = '{PUBLISHED}' THEN 0L ELSE seen END,
        CASE WHEN type = '{PUBLISHED}' THEN occurrence END
    FROM {{carried}} WHERE type IN ('{PUBLISHED}', '{SEEN}')
"""
"""What was published (`rank` 0) and delivered (2), and what is carried of contents: published (0), delivered (1)."""

_ORDER = "ts_ns, rank, connection_id, seq"


def _counted(window_ns: int) -> str:
    """Contents with `base`, how many alike were published before counting began anew; and which they are since."""
    return f"""
        SELECT *, `all` - base AS published, sum(is_first) OVER of_queue AS delivered, sum(seen) OVER of_queue AS so_far
        FROM (
            SELECT *, coalesce(max(
                CASE WHEN rank = 0 AND ts_ns - before_ns > {window_ns} THEN `all` - 1 END
            ) OVER alike, 0L) AS base
            FROM (
                SELECT *, coalesce(max(occurrence) OVER alike, 0L)
                    + sum(CASE WHEN rank = 0 AND occurrence IS NULL THEN 1L ELSE 0L END) OVER alike AS `all`,
                    max(CASE WHEN rank = 0 THEN ts_ns END) OVER before AS before_ns
                FROM ({_CONTENTS})
                WINDOW alike AS (PARTITION BY content_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING),
                    before AS (PARTITION BY content_key ORDER BY {_ORDER}
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            )
            WINDOW alike AS (PARTITION BY content_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
        )
        WINDOW of_queue AS (PARTITION BY content_key, base, queue_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
    """


def _links(window_ns: int) -> str:
    place = """CASE WHEN rank = 0 THEN published WHEN is_first = 1 THEN delivered WHEN published = 1 THEN 1L END"""
    reference = zip(REFERENCE, ("connection_id", "channel", "epoch", "number", "ts_ns"), strict=True)
    in_time = f"ts_ns - publish.ts_ns BETWEEN 0 AND {window_ns} AND place IS NOT NULL"
    return f"""
        SELECT connection_id, channel, epoch, number, seq AS link_seq, so_far - 1 AS redelivery_count,
            {", ".join(f"CASE WHEN {in_time} THEN publish.{of} END AS {name}" for name, of in reference)}
        FROM (
            SELECT *, first(CASE WHEN rank = 0 THEN struct(connection_id, channel, epoch, number, ts_ns) END)
                OVER (PARTITION BY content_key, base, place ORDER BY rank) AS publish
            FROM (SELECT *, {place} AS place FROM {{rows}} WHERE rank <> 1)
        )
        WHERE rank <> 0
    """


_LATEST = """
    SELECT {hint} t.*, w.horizon_ns,
        max(CASE WHEN rank = 0 THEN ts_ns END) OVER (PARTITION BY content_key) AS latest_ns,
        max(base) OVER (PARTITION BY content_key) AS latest_base
    FROM {rows} t LEFT JOIN {horizons} w ON w.chain = t.chain
"""


class Journeys:
    """The publishes and deliveries of a batch, and what is carried of those before it, by their content."""

    def __init__(self, batch: Batch, who: DataFrame, horizons: DataFrame, *, window_ns: int) -> None:
        self._batch = batch
        self._horizons = horizons
        self._window_ns = window_ns
        self._rows = batch.shared(batch.sql(_counted(window_ns), who=who))

    def links(self) -> DataFrame:
        """A row for each delivery of the batch: `connection_id`, `channel`, `epoch`, `number`, its `link_seq`, its
        `redelivery_count` as far as it was seen, and `REFERENCE`.
        """
        return self._batch.sql(_links(self._window_ns), rows=self._rows)

    def open(self) -> list[DataFrame]:
        """What the next batch is to know, with columns of `carry.OPEN`: what was published, how often it was delivered.

        That is of the contents that have been published within the window.
        """
        begin = f"horizon_ns - {self._window_ns}"
        is_known = f"latest_ns >= {begin} AND base = latest_base"
        latest = self._batch.sql(_LATEST, rows=self._rows, horizons=self._horizons)
        published = f"""
            SELECT '{PUBLISHED}' AS type, chain, content_key, {_OF_EVENT}, published AS occurrence
            FROM {{latest}} WHERE {is_known} AND rank = 0 AND ts_ns >= {begin}
        """
        seen = f"""
            SELECT '{SEEN}' AS type, max(chain) AS chain, content_key, queue_key, max(ts_ns) AS ts_ns,
                max(delivered) AS occurrence, max(so_far) AS seen
            FROM {{latest}} WHERE {is_known} AND rank <> 0 GROUP BY content_key, queue_key
        """
        return [self._batch.sql(each, latest=latest) for each in (published, seen)]
