"""Which publish each delivery came from, on whichever connections: by message_id, else by what is in it.

Content is recognised by its virtual host and message_id; without one, by its exchange, routing key and digest. What is
alike is distinguished by its place: the first that a queue delivers is the first that was published, and so on.
Most content is like no other: published once, and delivered once from each queue. It needs no place, hence no window.
Counting begins anew when nothing alike was published for the window, and a delivery that comes later than that after
its publish is linked to none. What was delivered before is linked only if nothing alike had been published since.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.carry import PUBLISHED, SEEN

REFERENCE = ("published_connection_id", "published_channel", "published_epoch", "published_number", "published_ns")
"""The columns that say which publish a delivery came from."""

_OF_PUBLISH = ("connection_id", "channel", "epoch", "number", "ts_ns")
_OF_EVENT = "connection_id, channel, epoch, number, ts_ns, seq"

CONTENT_KEY = """CASE
    WHEN e.message_id <> '' THEN xxhash64(w.virtual_host, e.message_id, e.size)
    WHEN e.digest IS NOT NULL THEN xxhash64(w.virtual_host, e.exchange, e.routing_key, e.digest)
END"""
"""What the content of an event `e` on a connection `w` is recognised by."""

_CONTENTS = f"""
    SELECT chain, content_key, {_OF_EVENT}, rank, queue_key,
        CASE WHEN rank = 0 OR redelivered THEN 0L ELSE 1L END AS is_first,
        CASE WHEN rank = 0 THEN 0L ELSE 1L END AS seen,
        CAST(NULL AS BIGINT) AS occurrence
    FROM (
        SELECT {{hint}} e.chain, e.connection_id, e.channel, e.epoch, e.number, e.ts_ns, e.seq, e.redelivered,
            CASE WHEN e.type = 'publish' THEN 0 ELSE 2 END AS rank,
            {CONTENT_KEY} AS content_key,
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

_ROWS_OF_PARTITION = 200_000

_ALIKE = f"""
    SELECT content_key, count_if(rank <> 0) AS delivered
    FROM (SELECT {{by_content}} * FROM ({_CONTENTS}))
    GROUP BY content_key
    HAVING count_if(rank = 0) > 1 OR count_if(rank = 1 OR occurrence IS NOT NULL) > 0
        OR bit_count(bit_or(shiftleft(1L, CAST(queue_key & 63 AS INT)))) < count_if(rank <> 0)
"""
"""Contents that are to be counted: published, or delivered from a queue, more than once, or known from before.

Queues are counted as bits; a few contents too many are found where two queues have the same.
"""

_ALL = f"SELECT * FROM ({_CONTENTS})"
_AMONG_ALIKE = f"SELECT /*+ BROADCAST(a) */ t.* FROM ({_CONTENTS}) t LEFT SEMI JOIN {{alike}} a USING (content_key)"
_LIKE_NO_OTHER = f"SELECT /*+ BROADCAST(a) */ t.* FROM ({_CONTENTS}) t LEFT ANTI JOIN {{alike}} a USING (content_key)"

_ORDER = "ts_ns, rank, connection_id, seq"


def _counted(contents: str, window_ns: int) -> str:
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
                FROM ({contents})
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
    reference = zip(REFERENCE, _OF_PUBLISH, strict=True)
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


_PUBLISHED_ONCE = f"""
    SELECT {{by_content}} content_key,
        {", ".join(f"`{of}` AS {name}" for name, of in zip(REFERENCE, _OF_PUBLISH, strict=True))}
    FROM ({_LIKE_NO_OTHER}) WHERE rank = 0
"""

_OPEN_ONCE = f"""
    SELECT /*+ BROADCAST(w) */ t.*, w.horizon_ns - {{window_ns}} AS begin
    FROM ({_LIKE_NO_OTHER}) t JOIN {{horizons}} w ON w.chain = t.chain
"""


class Journeys:
    """The publishes and deliveries of a batch, and what is carried of those before it, by their content.

    `few` is whether there are few connections, `contents` how many contents there are, about.
    """

    def __init__(
        self, batch: Batch, who: DataFrame, horizons: DataFrame, *, few: bool, contents: int, window_ns: int
    ) -> None:
        self._batch = batch
        self._who = who
        self._horizons = horizons
        self.window_ns = window_ns
        self._alike: DataFrame | None = None
        self._few = few
        self.has_alike = True
        """Is there content like other content?"""
        counted = _ALL
        if not batch.is_small:
            cores = batch.events.sparkSession.sparkContext.defaultParallelism
            self.by_content = f"/*+ REPARTITION({max(cores, contents // _ROWS_OF_PARTITION)}, content_key) */"
            """A hint: content that is the same comes to the same partition, of which there are so many."""
            alike = batch.kept(batch.sql(_ALIKE.replace("{by_content}", self.by_content), few=few, who=who))
            found = batch.sql(
                "SELECT count(*) AS n, coalesce(sum(delivered), 0L) AS m FROM {alike}", alike=alike
            ).first()
            assert found is not None
            if batch.is_few(max(found)):
                self._alike = alike
                self.has_alike = found[0] > 0
                counted = _AMONG_ALIKE
        self._rows = batch.nothing
        if self.has_alike:
            alike_only = {} if self._alike is None else {"alike": self._alike}
            self._rows = batch.shared(batch.sql(_counted(counted, window_ns), few=few, who=who, **alike_only))

    def links(self) -> DataFrame:
        """A row for each delivery of the batch: `connection_id`, `channel`, `epoch`, `number`, its `link_seq`, its
        `redelivery_count` as far as it was seen, and `REFERENCE`. Not of content that `published_once` is about.
        """
        return self._batch.sql(_links(self.window_ns), rows=self._rows)

    def published_once(self) -> DataFrame | None:
        """A row for each content like no other: `content_key`, and as `REFERENCE` its publish; None of few contents."""
        if self._alike is None:
            return None
        text = _PUBLISHED_ONCE.replace("{by_content}", self.by_content)
        return self._batch.sql(text, few=self._few, who=self._who, alike=self._alike)

    def open(self) -> list[DataFrame]:
        """What the next batch is to know, with columns of `carry.OPEN`: what was published, how often it was delivered.

        That is of the contents that have been published within the window.
        """
        found = []
        if self.has_alike:
            begin = f"horizon_ns - {self.window_ns}"
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
            found += [self._batch.sql(each, latest=latest) for each in (published, seen)]
        if self._alike is not None:
            open_once = self._batch.sql(
                _OPEN_ONCE,
                few=self._few,
                who=self._who,
                alike=self._alike,
                horizons=self._horizons,
                window_ns=self.window_ns,
            )
            published = f"""
                SELECT '{PUBLISHED}' AS type, chain, content_key, {_OF_EVENT}, 1L AS occurrence
                FROM {{rows}} WHERE rank = 0 AND ts_ns >= begin
            """
            seen = f"""
                SELECT '{SEEN}' AS type, d.chain, d.content_key, d.queue_key, d.ts_ns, d.is_first AS occurrence, d.seen
                FROM {{rows}} d JOIN {{rows}} p ON p.content_key = d.content_key AND p.rank = 0
                WHERE d.rank <> 0 AND p.ts_ns >= d.begin
            """
            found += [self._batch.sql(each, rows=open_once) for each in (published, seen)]
        return found
