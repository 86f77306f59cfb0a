"""Changes between two days.

For each exchange, queue, user and client version: messages published and delivered, and errors, in the requested span
and in the earlier one: a day and the day before, unless `--start`, `--last` and `--before` say otherwise. A client
version is the product and version of a client library, as its connections name them. New and vanished objects come
first, then the largest changes.
"""

from amqproxy.pipeline.questions.question import DAY, Question

_COUNTED = """
    SELECT r.by, r.name, r.virtual_host, CAST(sum(r.published) AS BIGINT) AS published,
           CAST(sum(r.delivered) AS BIGINT) AS delivered, CAST(sum(r.errors) AS BIGINT) AS errors
    FROM {<when>rollup_minute} r WHERE r.by IN ('exchange', 'queue', 'user') GROUP BY 1, 2, 3
    UNION ALL
    SELECT 'client version', v.name, v.virtual_host, CAST(sum(t.published) AS BIGINT),
           CAST(sum(t.delivered) AS BIGINT), CAST(sum(t.errors) AS BIGINT)
    FROM (
        SELECT m.connection_id, count(*) AS published, 0 AS delivered, 0 AS errors FROM {<when>messages} m GROUP BY 1
        UNION ALL
        SELECT d.connection_id, 0, count(*), 0 FROM {<when>deliveries} d GROUP BY 1
        UNION ALL
        SELECT e.connection_id, 0, 0, count(*) FROM {<when>errors} e GROUP BY 1
        UNION ALL
        SELECT c.connection_id, 0, 0, 0 FROM {<when>connections} c
    ) t JOIN versions v ON v.connection_id = t.connection_id
    GROUP BY 1, 2, 3
"""
"""Counts of each object; a connection without traffic counts, too."""

QUESTION = Question(
    name="changes",
    about=__doc__,
    seconds=DAY,
    sql=f"""
WITH versions AS (
    SELECT c.connection_id, max(c.virtual_host) AS virtual_host,
           max_by(concat_ws(' ', c.product, c.version), c.opened_ns) AS name
    FROM {{all_connections}} c WHERE c.product <> '' GROUP BY 1
), now AS ({_COUNTED.replace("<when>", "")}
), before AS ({_COUNTED.replace("<when>", "earlier_")}
), compared AS (
    SELECT coalesce(n.by, b.by) AS what, coalesce(n.name, b.name) AS name,
           coalesce(n.virtual_host, b.virtual_host) AS virtual_host,
           CASE WHEN b.by IS NULL THEN 'new' WHEN n.by IS NULL THEN 'gone' ELSE 'changed' END AS change,
           coalesce(b.published, 0) AS published_before, coalesce(n.published, 0) AS published_now,
           coalesce(b.delivered, 0) AS delivered_before, coalesce(n.delivered, 0) AS delivered_now,
           coalesce(b.errors, 0) AS errors_before, coalesce(n.errors, 0) AS errors_now
    FROM now n FULL OUTER JOIN before b ON n.by = b.by AND n.name IS NOT DISTINCT FROM b.name
         AND n.virtual_host IS NOT DISTINCT FROM b.virtual_host
)
SELECT * FROM compared
WHERE change <> 'changed' OR published_before <> published_now OR delivered_before <> delivered_now
      OR errors_before <> errors_now
ORDER BY CASE WHEN change = 'changed' THEN 1 ELSE 0 END,
         abs(published_now - published_before) + abs(delivered_now - delivered_before)
         + abs(errors_now - errors_before) DESC, what, name, virtual_host
""",
)
