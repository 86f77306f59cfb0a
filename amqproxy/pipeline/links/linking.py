"""Linking of the tables: the links of all contents that new rows may change, and the clocks of the hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructType

from amqproxy.pipeline.kept_tables import KeptTables
from amqproxy.pipeline.links.clocks import Clock, Evidence, clocks
from amqproxy.pipeline.links.contents import AFFECTED, CONTENTS, HOUR_OF_ROW, IDENTITY, REFERENCE
from amqproxy.pipeline.links.pairs import KEYS, PAIRS
from amqproxy.pipeline.redelivery_count import redelivery_count
from amqproxy.pipeline.schema import DELIVERIES
from amqproxy.pipeline.small_input import in_one_partition
from amqproxy.pipeline.span import SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_NS = 600 * SECOND
"""Default time after which equal contents are counted anew."""

ISOLATED_NS = 50_000_000
"""Maximum by which the smallest transit time is below that of the fastest hundredth; smaller ones are not trusted."""

_SAME_DELIVERY = " AND ".join(f"l.{name} = d.{'delivery_tag' if name == 'number' else name}" for name in IDENTITY)

# --- links

_OF_REPLACED = "SELECT d.* FROM {deliveries} d LEFT SEMI JOIN {replaced} r ON r.chain = d.published_chain"
_OF_AFFECTED = f"SELECT c.* FROM ({CONTENTS}) c LEFT SEMI JOIN {{affected}} a ON a.content_key = c.content_key"

_AT_NS = "(d.ts_ns - coalesce(o.offset_ns, 0L))"
_CLOCKS_OF_ROWS = "LEFT JOIN {offsets} o ON o.hour = d.hour AND o.chain = d.chain"

_LINKS = f"""
    SELECT {", ".join(IDENTITY)}, link.chain, link.hour, {", ".join(f"link.{name}" for name in REFERENCE)},
        link.redelivered_before, NOT (
            {" AND ".join(f"link.{name} <=> link.was.{name}" for name in REFERENCE)}
            AND (link.redelivered_before IS NULL OR link.was.is_first = 1
                OR greatest(link.redelivered_before, 1L) <=> link.was.redelivery_count)
        ) AS is_changed
    FROM (
        SELECT {", ".join(IDENTITY)}, min(struct(
            chain, hour, {", ".join(REFERENCE)}, redelivered_before, was
        )) AS link
        FROM ({PAIRS}) GROUP BY {", ".join(IDENTITY)}
    )
"""
"""A row for each delivery: a broker may repeat the tag of a direct reply within one packet."""

_HOURS = "SELECT hour, bool_or(is_changed) AS is_changed FROM {links} GROUP BY hour"

# --- clocks

_IS_EVIDENCE = "published_among = 1 AND chain <> published_chain"
_PAIRS_NOW = f"""
    SELECT hour, published_chain, chain, ts_ns - published_ns AS transit_ns FROM {{links}} WHERE {_IS_EVIDENCE}
"""
_PAIRS_BEFORE = f"""
    SELECT {HOUR_OF_ROW} AS hour, published_chain, chain, ts_ns - published_ns AS transit_ns
    FROM {{deliveries}} d LEFT ANTI JOIN {{links}} l ON {_SAME_DELIVERY}
    WHERE {_IS_EVIDENCE} AND {HOUR_OF_ROW} IN (SELECT DISTINCT hour FROM {{links}})
"""
_EVIDENCE = f"""
    SELECT hour, published_chain, chain, min(transit_ns) AS least_ns, max(pairs) AS pairs
    FROM (
        SELECT *, max(CASE WHEN place = 1 + pairs DIV 100 THEN transit_ns END)
            OVER (PARTITION BY hour, published_chain, chain) AS fast_ns
        FROM (
            SELECT *, count(*) OVER (PARTITION BY hour, published_chain, chain) AS pairs,
                row_number() OVER (PARTITION BY hour, published_chain, chain ORDER BY transit_ns) AS place
            FROM ({{pairs}})
        )
    )
    WHERE transit_ns >= fast_ns - {ISOLATED_NS} GROUP BY hour, published_chain, chain
"""

_CLOCK = StructType().add("hour", LongType()).add("chain", StringType()).add("offset_ns", LongType())
_CLOCK = _CLOCK.add("pairs", LongType())
_STORED = "SELECT unix_micros(time) DIV 3600000000 AS hour, chain, offset_ns, pairs FROM {clocks}"
_TO_STORE = """
    SELECT timestamp_seconds(hour * 3600) AS hour_start, timestamp_seconds(hour * 3600) AS time, chain, offset_ns, pairs
    FROM {clocks}
"""

# --- deliveries

_GIVEN = {
    **{name: f"CASE WHEN l.hour IS NULL THEN d.{name} ELSE l.{name} END" for name in REFERENCE},
    "redelivery_count": redelivery_count("coalesce(l.redelivered_before, d.redelivery_count)"),
}
_OWN = ", ".join(f"d.`{name}`" for name in DELIVERIES.fieldNames() if name not in (*_GIVEN, "transit_ns"))
_APPLIED = f"""
    SELECT {", ".join(f"`{name}`" for name in DELIVERIES.fieldNames() if name != "transit_ns")}{{more}},
        CASE WHEN transit >= 0 THEN transit END AS transit_ns
    FROM (
        SELECT /*+ BROADCAST(o, p) */ f.*, f.ts_ns - f.published_ns - CASE WHEN f.published_chain IS NULL THEN 0L
            ELSE coalesce(o.offset_ns, 0L) - coalesce(p.offset_ns, 0L) END AS transit
        FROM (
            SELECT {_OWN}{{own_more}}, {HOUR_OF_ROW.replace("ts_ns", "d.ts_ns")} AS of_hour,
                {", ".join(f"{given} AS {name}" for name, given in _GIVEN.items())}
            FROM {{deliveries}} d LEFT JOIN {{links}} l ON {_SAME_DELIVERY}
        ) f
        LEFT JOIN {{offsets}} o ON o.hour = f.of_hour AND o.chain = f.chain
        LEFT JOIN {{offsets}} p ON p.hour = f.of_hour AND p.chain = f.published_chain
    )
"""


class Linked(msgspec.Struct, frozen=True):
    """The links of a batch."""

    hours: frozenset[int]
    """Hours since 1970 of deliveries that are linked otherwise than before."""
    clock_hours: frozenset[int]
    """Hours whose clocks are known otherwise than before."""
    apply: Callable[[DataFrame], DataFrame]
    """Returns rows of `deliveries` with their links, with the same columns."""
    clocks: Callable[[Collection[int]], DataFrame]
    """Returns the clocks of some hours: `schema.CLOCKS`."""
    release: Callable[[], None]


class _Step:
    """One evaluation: the links of all rows, or of those that equal new ones."""

    def __init__(
        self,
        messages: DataFrame,
        deliveries: DataFrame,
        kept: KeptTables,
        window_ns: int,
        replaced: Collection[str],
    ) -> None:
        self.messages, self.deliveries = messages, deliveries
        self.replaced = replaced
        self.spark: SparkSession = messages.sparkSession
        self.kept = kept
        self.window_ns = window_ns

    def links(self, is_new: str | None, offsets: DataFrame, *, has_offsets: bool) -> DataFrame:
        """Return a row for each delivery whose content a new row has; `is_new` is a condition, or `None` for all."""
        sql, keep = self.spark.sql, self.kept.keep
        if is_new is None:
            contents = sql(f"SELECT * FROM ({CONTENTS})", messages=self.messages, deliveries=self.deliveries)
        else:
            new: dict[str, Any] = {"messages": self.messages.where(is_new), "deliveries": self.deliveries.where(is_new)}
            if self.replaced:
                gone = self.spark.createDataFrame(pa.table({"chain": sorted(self.replaced)}))
                stale = sql(_OF_REPLACED, deliveries=self.deliveries, replaced=gone)
                new["deliveries"] = new["deliveries"].unionByName(stale)
            affected = keep(sql(AFFECTED, **new))
            contents = sql(_OF_AFFECTED, messages=self.messages, deliveries=self.deliveries, affected=affected)
        contents = keep(contents)
        keys = keep(sql(KEYS, contents=contents))
        given = {"{at_ns}": "d.ts_ns", "{clocks_of_rows}": "", "{window_ns}": str(self.window_ns)}
        tables: dict[str, Any] = {"contents": contents, "keys": keys}
        if has_offsets:
            given |= {"{at_ns}": _AT_NS, "{clocks_of_rows}": _CLOCKS_OF_ROWS}
            tables["offsets"] = offsets
        text = _LINKS
        for name, value in given.items():
            text = text.replace(name, value)
        return keep(sql(text, **tables))

    def evidence(self, links: DataFrame, *, is_all: bool) -> list[Evidence]:
        """Return the smallest transit times between chains, in the hours of these links."""
        pairs = _PAIRS_NOW if is_all else f"{_PAIRS_NOW} UNION ALL {_PAIRS_BEFORE}"
        tables: dict[str, Any] = {"links": links} if is_all else {"links": links, "deliveries": self.deliveries}
        return [Evidence(*row) for row in self.spark.sql(_EVIDENCE.replace("{pairs}", pairs), **tables).collect()]

    def table_of(self, found: Iterable[Clock]) -> DataFrame:
        return self.spark.createDataFrame([tuple(each) for each in found], _CLOCK)


def link(
    messages: DataFrame,
    deliveries: DataFrame,
    known: DataFrame | None = None,
    *,
    after: int | None = None,
    window_ns: int = WINDOW_NS,
    replaced: Collection[str] = (),
) -> Linked:
    """Link `deliveries` to `messages`, the rows of both tables within `pairs.REACH_NS` before and after what is new.

    New are the rows of batches later than `after`; all if it is `None`. Deliveries linked to publishes of the chains
    `replaced` are linked anew, too. `known` are the rows of `clocks` of that time. `window_ns` is the time after which
    equal contents are counted anew, and the maximum between their publish and delivery.
    """
    kept = KeptTables()
    messages, deliveries = in_one_partition(messages, deliveries) or (messages, deliveries)
    step = _Step(messages, deliveries, kept, window_ns, replaced)
    by_hour: defaultdict[int, list[Clock]] = defaultdict(list)
    if known is not None:
        for row in step.spark.sql(_STORED, clocks=known).collect():
            by_hour[row.hour].append(Clock(*row))
    is_new = None if after is None else f"batch > {after}"
    links, hours = _evaluated(step, is_new, by_hour)
    clock_hours, shifted = set(), set()
    now: defaultdict[int, list[Clock]] = defaultdict(list)
    for each in clocks(step.evidence(links, is_all=is_new is None)):
        now[each.hour].append(each)
    for hour in hours:
        if sorted(by_hour.get(hour, [])) != now[hour]:
            clock_hours.add(hour)
            if _offsets(by_hour.get(hour, [])) != _offsets(now[hour]):
                shifted.add(hour)
            by_hour[hour] = now[hour]
    if shifted:
        more = is_new and f"{is_new} OR {HOUR_OF_ROW} IN ({', '.join(map(str, sorted(shifted)))})"
        links, hours = _evaluated(step, more, by_hour)
    offsets = step.table_of(_not_zero(by_hour))

    def apply(rows: DataFrame) -> DataFrame:
        others = [name for name in rows.columns if name not in DELIVERIES.names]
        text = _APPLIED.replace("{own_more}", "".join(f", d.`{name}`" for name in others))
        text = text.replace("{more}", "".join(f", `{name}`" for name in others))
        return step.spark.sql(text, deliveries=rows, links=links, offsets=offsets)

    def clocks_of(chosen: Collection[int]) -> DataFrame:
        found = [each for hour in sorted(chosen) for each in by_hour[hour]]
        return step.spark.sql(_TO_STORE, clocks=step.table_of(found))

    changed = {hour for hour, is_changed in hours.items() if is_changed}
    return Linked(frozenset(changed | shifted), frozenset(clock_hours), apply, clocks_of, kept.release)


def _evaluated(step: _Step, is_new: str | None, by_hour: dict[int, list[Clock]]) -> tuple[DataFrame, dict[int, bool]]:
    """Return the links, and their hours with whether any of them changed."""
    offsets = _not_zero(by_hour)
    links = step.links(is_new, step.table_of(offsets), has_offsets=bool(offsets))
    return links, {row.hour: row.is_changed for row in step.spark.sql(_HOURS, links=links).collect()}


def _not_zero(by_hour: dict[int, list[Clock]]) -> list[Clock]:
    return [each for found in by_hour.values() for each in found if each.offset_ns]


def _offsets(found: list[Clock]) -> dict[str, int]:
    return {each.chain: each.offset_ns for each in found if each.offset_ns}
