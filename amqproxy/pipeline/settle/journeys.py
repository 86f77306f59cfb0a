"""Links deliveries to publishes across connections: by message_id, else by content.

Which contents are equal, and which publishes take part, is defined in `amqproxy.linking`. Equal contents
are distinguished by their order: the first that a queue delivers is the first that was published, and so on. Most
contents are unique: published once, and delivered once from each queue. They need no order, hence no window. Counting
begins with the first publish that is seen, and restarts when nothing equal was published for the window; a delivery
that comes later than that after its publish is not linked. A delivery before the first known publish is linked only if
nothing equal has been published since.

A batch knows the counts of earlier batches for each content that may still be counted: so several batches make the same
links as one. If the chains of a virtual host have advanced unequally, the order is unknown beyond the slowest: equal
contents after that point are not linked.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.linking.message_key import CONTENT_FIELDS, ID_FIELDS
from amqproxy.linking.taking_part import NOT_FORWARDED, NOT_TAKEN
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.carry import PUBLISHED, SEEN
from amqproxy.pipeline.settle.settlements import same, settlements
from amqproxy.pipeline.settle.watermark import Watermarks

REFERENCE = ("published_connection_id", "published_channel", "published_epoch", "published_number", "published_ns")
"""Columns that identify the publish of a delivery."""

_OF_PUBLISH = ("connection_id", "channel", "epoch", "number", "ts_ns")
_OF_EVENT = "connection_id, channel, epoch, number, ts_ns, seq"

_COLUMNS = {"type": "message_type"}
"""Columns of properties whose names differ."""


def _hash_of(fields: tuple[str, ...]) -> str:
    return f"xxhash64(w.virtual_host, {', '.join(f'e.{_COLUMNS.get(name, name)}' for name in fields)})"


CONTENT_COLUMNS = tuple(_COLUMNS.get(name, name) for name in (*ID_FIELDS, *CONTENT_FIELDS))
"""Columns of an event that `CONTENT_KEY` reads."""

CONTENT_KEY = f"""(CASE
    WHEN e.message_id <> '' THEN {_hash_of(ID_FIELDS)}
    WHEN e.digest IS NOT NULL THEN {_hash_of(CONTENT_FIELDS)}
END ^ CASE WHEN e.ts_ns < w.late_ns THEN 1L ELSE 0L END)"""
"""Identity of the content of an event `e` on a connection `w`; late content equals nothing else."""


def _texts(values: frozenset[str]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(values))


IS_VOID = f"""coalesce(
    e.type = 'publish' AND (e.outcome IN ({_texts(NOT_TAKEN)}) OR e.verdict IN ({_texts(NOT_FORWARDED)})), false
)"""
"""Whether the row of an event tells that it is a publish that has reached no queue."""

VOIDS = f"""
    SELECT DISTINCT connection_id, channel, epoch, number FROM (
        SELECT connection_id, channel, epoch, number FROM {{events}} WHERE type = 'return' AND number IS NOT NULL
        UNION ALL
        SELECT connection_id, channel, epoch, number FROM ({settlements("publishes-settled")})
        WHERE settlement IN ({_texts(NOT_TAKEN)})
    )
"""
"""Publishes that have reached no queue, as events other than their own tell."""

_CONTENTS = f"""
    SELECT chain, virtual_host, known_ns, content_key, {_OF_EVENT}, rank, queue_key, is_void,
        CASE WHEN rank = 0 OR redelivered THEN 0L ELSE 1L END AS is_first,
        CASE WHEN rank = 0 THEN 0L ELSE 1L END AS seen,
        CAST(NULL AS BIGINT) AS occurrence
    FROM (
        SELECT {{hint}} {{void_hint}} e.chain, w.virtual_host, w.known_ns,
            e.connection_id, e.channel, e.epoch, e.number, e.ts_ns, e.seq, e.redelivered, {{is_void}} AS is_void,
            CASE WHEN e.type = 'publish' THEN 0 ELSE 2 END AS rank,
            {CONTENT_KEY} AS content_key,
            CASE WHEN e.type <> 'publish' THEN xxhash64(
                w.virtual_host, coalesce(e.queue, concat_ws(' ', e.connection_id, e.channel, e.consumer_tag))
            ) END AS queue_key
        FROM {{events}} e LEFT JOIN {{who}} w ON w.connection_id = e.connection_id {{voids}}
        WHERE e.type IN ('publish', 'deliver', 'get')
    )
    WHERE content_key IS NOT NULL
    UNION ALL
    SELECT /*+ BROADCAST(m) */ {{void_hint}} e.chain, e.virtual_host, {{known_ns}} AS known_ns, e.content_key,
        {", ".join(f"e.{name}" for name in _OF_EVENT.split(", "))},
        CASE WHEN e.type = '{PUBLISHED}' THEN 0 ELSE 1 END, queue_key, {{is_void_carried}},
        CASE WHEN e.type = '{PUBLISHED}' THEN 0L ELSE occurrence END,
        CASE WHEN e.type = '{PUBLISHED}' THEN 0L ELSE seen END,
        CASE WHEN e.type = '{PUBLISHED}' THEN occurrence END
    FROM {{carried}} e {{marked}} {{voids}} WHERE e.type IN ('{PUBLISHED}', '{SEEN}')
"""
"""Published (`rank` 0) and delivered contents (2), and carried contents: published (0), delivered (1)."""

_ROWS_OF_PARTITION = 200_000

_ALIKE = f"""
    SELECT content_key, count_if(rank <> 0) AS delivered
    FROM (SELECT {{by_content}} * FROM ({_CONTENTS}))
    GROUP BY content_key
    HAVING count_if(rank = 0) > 1 OR bool_or(is_void) OR count_if(rank = 1 OR occurrence IS NOT NULL) > 0
        OR bit_count(bit_or(shiftleft(1L, CAST(queue_key & 63 AS INT)))) < count_if(rank <> 0)
"""
"""Contents to be counted: published, or delivered from a queue, more than once, or known from before.

Queues are counted as bits; if two queues share a bit, a few contents too many are included.
"""

_ALL = f"SELECT * FROM ({_CONTENTS})"
_AMONG_ALIKE = f"SELECT /*+ BROADCAST(a) */ t.* FROM ({_CONTENTS}) t LEFT SEMI JOIN {{alike}} a USING (content_key)"
_LIKE_NO_OTHER = f"SELECT /*+ BROADCAST(a) */ t.* FROM ({_CONTENTS}) t LEFT ANTI JOIN {{alike}} a USING (content_key)"

_ORDER = "ts_ns, rank, connection_id, seq"


_UNPUBLISHED = -1
"""`base` of contents that were delivered before an equal one was published."""


def _counted(contents: str, window_ns: int) -> str:
    """Return contents with `base`, the number of equal publishes before counting restarted, and their index since then.

    `forgotten` are the contents of counted publishes that earlier batches did not carry.
    """
    return f"""
        SELECT *, `all` - base AS published, sum(is_first) OVER of_queue AS delivered, sum(seen) OVER of_queue AS so_far
        FROM (
            SELECT *, coalesce(
                max(CASE WHEN rank = 0 AND coalesce(ts_ns - before_ns > {window_ns}, forgotten = 0)
                    THEN `all` - 1 END) OVER alike,
                CASE WHEN forgotten = 0 THEN {_UNPUBLISHED}L ELSE 0L END
            ) AS base
            FROM (
                SELECT *, forgotten + sum(CASE WHEN rank = 0 THEN 1L ELSE 0L END) OVER alike AS `all`
                FROM (
                    SELECT *, coalesce(min(occurrence) OVER whole - 1, 0L) AS forgotten,
                        max(CASE WHEN rank = 0 AND NOT is_void THEN ts_ns END) OVER before AS before_ns
                    FROM ({contents})
                    WINDOW whole AS (PARTITION BY content_key ORDER BY {_ORDER}
                            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
                        before AS (PARTITION BY content_key ORDER BY {_ORDER}
                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                )
                WHERE NOT is_void
                WINDOW alike AS (PARTITION BY content_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
            )
            WINDOW alike AS (PARTITION BY content_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
        )
        WINDOW of_queue AS (PARTITION BY content_key, base, queue_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
    """


_PLACE = "CASE WHEN rank = 0 THEN published WHEN is_first = 1 THEN delivered WHEN published = 1 THEN 1L END"

_CERTAIN_PLACE = f"""CASE
    WHEN rank = 0 THEN published
    WHEN ts_ns < max(CASE WHEN rank = 1 THEN ts_ns END) OVER (PARTITION BY content_key, queue_key) THEN NULL
    WHEN ts_ns > known_ns AND (
        delivered > 1 OR is_first = 0 OR max(published) OVER (PARTITION BY content_key, base) > 1
    ) THEN NULL
    ELSE {_PLACE}
END"""
"""Unknown if a later batch may contain an earlier content, or if later ones are counted already."""


def _links(window_ns: int, place: str) -> str:
    reference = zip(REFERENCE, _OF_PUBLISH, strict=True)
    in_time = f"ts_ns - publish.ts_ns BETWEEN 0 AND {window_ns} AND place IS NOT NULL"
    return f"""
        SELECT connection_id, channel, epoch, number, seq AS link_seq, so_far - delivered AS redelivery_count,
            {", ".join(f"CASE WHEN {in_time} THEN publish.{of} END AS {name}" for name, of in reference)}
        FROM (
            SELECT *, first(CASE WHEN rank = 0 THEN struct(connection_id, channel, epoch, number, ts_ns) END)
                OVER (PARTITION BY content_key, base, place ORDER BY rank) AS publish
            FROM (SELECT *, {place} AS place FROM {{rows}})
            WHERE rank <> 1
        )
        WHERE rank <> 0
    """


_LATEST = """
    SELECT *,
        max(CASE WHEN rank = 0 THEN ts_ns END) OVER (PARTITION BY content_key) AS latest_ns,
        max(base) OVER (PARTITION BY content_key) AS latest_base
    FROM {rows}
"""


_PUBLISHED_ONCE = f"""
    SELECT {{by_content}} content_key,
        {", ".join(f"`{of}` AS {name}" for name, of in zip(REFERENCE, _OF_PUBLISH, strict=True))}
    FROM ({_LIKE_NO_OTHER}) WHERE rank = 0
"""


_OF_CONTENT = "chain, virtual_host, content_key"
_OF_DELIVERED = "d.chain, d.virtual_host, d.content_key, d.queue_key, d.ts_ns, d.is_first AS occurrence, d.seen"


class Journeys:
    """Publishes and deliveries of a batch, and carried earlier ones, by content.

    `few` is whether there are few connections, `contents` the approximate number of contents, `voids` that of publishes
    which have reached no queue, as other events tell.
    """

    def __init__(
        self,
        batch: Batch,
        who: DataFrame,
        watermarks: Watermarks,
        *,
        few: bool,
        contents: int,
        voids: int,
        window_ns: int,
    ) -> None:
        self._batch = batch
        self._who = who
        self._watermarks = watermarks
        self._is_behind = watermarks.is_behind and not batch.is_last
        self.window_ns = window_ns
        self._texts = {"{known_ns}": watermarks.known_ns, "{marked}": watermarks.join("e")}
        self._texts |= {"{voids}": "", "{is_void}": IS_VOID, "{is_void_carried}": "false", "{void_hint}": ""}
        self._voids: dict[str, DataFrame] = {}
        if voids:
            self._voids["void"] = batch.kept(batch.sql(VOIDS))
            way = "SHUFFLE_HASH" if batch.is_small else "BROADCAST" if batch.is_few(voids) else ""
            self._texts["{void_hint}"] = f"/*+ {way}(v) */" if way else ""
            is_named = f"v.number IS NOT NULL AND e.type IN ('publish', '{PUBLISHED}')"
            self._texts["{voids}"] = f"LEFT JOIN {{void}} v ON {same('e', 'v')}"
            self._texts["{is_void}"] = f"{IS_VOID} OR ({is_named})"
            self._texts["{is_void_carried}"] = f"({is_named})"
        self._alike: DataFrame | None = None
        self._few = few
        self.has_alike = True
        """Whether any contents are equal."""
        counted = _ALL
        if not batch.is_small:
            cores = batch.events.sparkSession.sparkContext.defaultParallelism
            self.by_content = f"/*+ REPARTITION({max(cores, contents // _ROWS_OF_PARTITION)}, content_key) */"
            """Hint that puts equal contents into the same one of this number of partitions."""
            self._texts["{by_content}"] = self.by_content
            alike = batch.kept(self._of_contents(_ALIKE))
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
            self._rows = batch.shared(self._of_contents(_counted(counted, window_ns)))

    def _of_contents(self, text: str) -> DataFrame:
        """Return the result of a query of `_CONTENTS`."""
        alike = {} if self._alike is None else {"alike": self._alike}
        for name, found in self._texts.items():
            text = text.replace(name, found)
        return self._batch.sql(text, few=self._few, who=self._who, **alike, **self._voids, **self._watermarks.tables)

    def links(self) -> DataFrame:
        """Return a row for each delivery of the batch, except contents in `published_once`.

        The columns are `connection_id`, `channel`, `epoch`, `number`, `link_seq`, the `redelivery_count` as seen, and
        `REFERENCE`.
        """
        place = _CERTAIN_PLACE if self._is_behind else _PLACE
        return self._batch.sql(_links(self.window_ns, place), rows=self._rows)

    def published_once(self) -> DataFrame | None:
        """Return a row for each unique content: `content_key`, and its publish as in `REFERENCE`; `None` for few
        contents.
        """
        return None if self._alike is None else self._of_contents(_PUBLISHED_ONCE)

    def open(self) -> list[DataFrame]:
        """Return the rows for the next batch, with columns of `carry.OPEN`: published contents, and delivery counts.

        They cover contents published within the window, and deliveries whose publish may still come.
        """
        found = []
        begin = f"known_ns - {self.window_ns}"
        may_come = "ts_ns > known_ns" if self._is_behind else "false"
        if self.has_alike:
            is_known = f"latest_ns >= {begin} AND base = latest_base"
            latest = self._batch.sql(_LATEST, rows=self._rows)
            published = f"""
                SELECT '{PUBLISHED}' AS type, {_OF_CONTENT}, {_OF_EVENT}, published AS occurrence
                FROM {{latest}} WHERE {is_known} AND rank = 0 AND ts_ns >= {begin}
            """
            seen = f"""
                SELECT '{SEEN}' AS type, max(chain) AS chain, max(virtual_host) AS virtual_host, content_key,
                    queue_key, max(ts_ns) AS ts_ns, sum(is_first) AS occurrence, sum(seen) AS seen
                FROM {{latest}} WHERE rank <> 0 AND (({is_known}) OR (base = {_UNPUBLISHED} AND {may_come}))
                GROUP BY content_key, queue_key, base
            """
            found += [self._batch.sql(each, latest=latest) for each in (published, seen)]
        if self._alike is not None:
            once = self._of_contents(_LIKE_NO_OTHER)
            published = f"""
                SELECT '{PUBLISHED}' AS type, {_OF_CONTENT}, {_OF_EVENT}, 1L AS occurrence
                FROM {{rows}} WHERE rank = 0 AND ts_ns >= {begin}
            """
            is_after = "p.content_key = d.content_key AND p.rank = 0 AND d.ts_ns >= p.ts_ns"
            seen = f"""
                SELECT '{SEEN}' AS type, {_OF_DELIVERED}
                FROM {{rows}} d JOIN {{rows}} p ON {is_after} WHERE d.rank <> 0 AND p.ts_ns >= p.{begin}
            """
            early = f"""
                SELECT '{SEEN}' AS type, {_OF_DELIVERED}
                FROM {{rows}} d LEFT ANTI JOIN {{rows}} p ON {is_after} WHERE d.rank <> 0 AND d.{may_come}
            """
            found += [self._batch.sql(each, rows=once) for each in (published, seen)]
            if self._is_behind:
                found.append(self._batch.sql(early, rows=once))
        return found
