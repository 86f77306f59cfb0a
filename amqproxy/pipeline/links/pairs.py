"""Pairs of a delivery and the publish that it came from, by content.

Most contents are unique: with a message_id that was published once, or published once and delivered once from each
queue. Their deliveries came from that publish, however long they waited, even if the clock of another host says that
it came after them. Other equal contents are distinguished by their order: the first that a queue delivers is the first
that was published, and so on. Counting begins with the first publish that is seen, and restarts when nothing equal was
published for the window; a delivery that comes later than that after its publish is not linked. A redelivery is linked
if only one of them was published before it.
"""

from __future__ import annotations

from amqproxy.pipeline.links.contents import IDENTITY, REFERENCE

REACH_NS = 31 * 86_400 * 1_000_000_000
"""Maximum time between a publish and its delivery: batches read the tables of this time around what is new."""

SKEW_NS = 3600 * 1_000_000_000
"""Maximum time by which the clocks of two hosts make a delivery precede its publish."""

KEYS = f"""
    SELECT content_key, count_if(rank = 0) AS publishes,
        count_if(rank <> 0) > coalesce(bit_count(bit_or(shiftleft(1L, CAST(queue_key & 31 AS INT)))), 0) AS is_repeated,
        min_by(struct(chain, {", ".join(IDENTITY)}, virtual_host), CASE WHEN rank = 0 THEN ts_ns END) AS publish
    FROM {{contents}} GROUP BY content_key
"""
"""Each content, with its publish if it is the only one.

`is_repeated` is whether a queue delivered it more than once. Queues are counted as bits: if two queues share a bit, a
few contents too many are `is_repeated`, and evaluated by order, with the same result.
"""

_IS_ALIKE = "(k.publishes > 1 OR k.is_repeated)"

_IS_IN_HOST = "coalesce(d.virtual_host = d.publish.virtual_host, true)"
"""Whether both are in one virtual host; that of a connection that was joined in its middle is not known."""

_FITS = f"""({_IS_IN_HOST} AND d.ts_ns - d.publish.ts_ns <= {REACH_NS}
    AND d.ts_ns - d.publish.ts_ns >= CASE WHEN d.chain = d.publish.chain THEN 0L ELSE -{SKEW_NS}L END)"""
"""Whether the times of a delivery and the only publish of its content fit, by the clocks of both hosts."""

_ORDER = "at_ns, rank, connection_id, channel, epoch, number"
_SO_FAR = f"(PARTITION BY content_key, host ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)"

_COUNTED = f"""
    SELECT *, `all` - base AS published, sum(is_first) OVER of_queue AS delivered, sum(seen) OVER of_queue AS so_far,
        sum(CASE WHEN rank = 0 THEN 1L ELSE 0L END) OVER (PARTITION BY content_key, host, base) AS among
    FROM (
        SELECT *, CASE WHEN is_single THEN 0L ELSE coalesce(
            max(CASE WHEN rank = 0 AND coalesce(at_ns - before_ns > {{window_ns}}, true) THEN `all` - 1 END)
                OVER {_SO_FAR}, -1L) END AS base
        FROM (
            SELECT *, publishes = 1 AND (has_id OR max(firsts) OVER (PARTITION BY content_key, host) <= 1) AS is_single,
                sum(CASE WHEN rank = 0 THEN 1L ELSE 0L END) OVER {_SO_FAR} AS `all`,
                max(CASE WHEN rank = 0 THEN at_ns END) OVER (
                    PARTITION BY content_key, host ORDER BY {_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS before_ns
            FROM (
                SELECT *, sum(is_first) OVER (PARTITION BY content_key, queue_key) AS firsts,
                    sum(CASE WHEN rank = 0 THEN 1L ELSE 0L END) OVER (PARTITION BY content_key, host) AS publishes
                FROM (
                    SELECT /*+ BROADCAST(o) */ d.*, {{at_ns}} AS at_ns,
                        CASE WHEN k.publishes > 1 THEN d.virtual_host END AS host
                    FROM {{contents}} d JOIN {{keys}} k ON k.content_key = d.content_key {{clocks_of_rows}}
                    WHERE {_IS_ALIKE}
                )
            )
        )
    )
    WINDOW of_queue AS (PARTITION BY content_key, host, base, queue_key ORDER BY {_ORDER} ROWS UNBOUNDED PRECEDING)
"""
"""Alike contents, with `base`, the number of publishes before counting restarted, and their index since then."""

_PLACE = """CASE WHEN rank = 0 THEN published WHEN is_single THEN 1L WHEN is_first = 1 THEN delivered
    WHEN published = 1 THEN 1L END"""

_IS_IN_ORDER = f"""d.place IS NOT NULL AND {_IS_IN_HOST} AND d.at_ns - d.publish.at_ns BETWEEN 0
    AND CASE WHEN d.publishes = 1 THEN {REACH_NS} ELSE {{window_ns}} END"""

_DELIVERY = ", ".join(f"d.{name}" for name in ("chain", "hour", *IDENTITY))
_WAS = f"struct({', '.join(f'd.{name}' for name in (*REFERENCE, 'redelivery_count', 'is_first'))}) AS was"


def _reference(is_linked: str, among: str) -> str:
    found = zip(REFERENCE, ("chain", *IDENTITY), strict=False)  # but for the last
    columns = [f"CASE WHEN {is_linked} THEN d.publish.{of} END AS {name}" for name, of in found]
    return ", ".join([*columns, f"CASE WHEN {is_linked} THEN {among} END AS {REFERENCE[-1]}"])


PAIRS = f"""
    SELECT {_DELIVERY}, {_reference(_FITS, "1L")}, CAST(NULL AS BIGINT) AS redelivered_before, {_WAS}
    FROM (
        SELECT d.*, k.publish FROM {{contents}} d JOIN {{keys}} k ON k.content_key = d.content_key
        WHERE d.rank <> 0 AND NOT {_IS_ALIKE}
    ) d
    UNION ALL
    SELECT {_DELIVERY}, {
    _reference(
        f"CASE WHEN d.is_single THEN {_FITS} ELSE {_IS_IN_ORDER} END",
        "CASE WHEN d.is_single THEN 1L ELSE greatest(d.among, 2L) END",
    )
}, d.so_far - d.delivered AS redelivered_before, {_WAS}
    FROM (
        SELECT *, first(CASE WHEN rank = 0 THEN struct(chain, {", ".join(IDENTITY)}, virtual_host, at_ns) END)
            OVER (PARTITION BY content_key, host, base, place ORDER BY rank) AS publish
        FROM (SELECT *, {_PLACE} AS place FROM ({_COUNTED}))
    ) d
    WHERE d.rank <> 0
"""
"""A row for each delivery, with `REFERENCE`, and as `was` what the table has in its place.

`{{at_ns}}` is the time of a row `d` by the true clock, with the join `{{clocks_of_rows}}`.
"""
