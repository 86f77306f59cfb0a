"""Messages and bytes of each virtual host or user, for billing.

A tenant is a virtual host, or a user in it (`--by user`). Bytes are those of bodies. `share` is the tenant's part of
all bytes, published and delivered. Traffic whose user or virtual host is unknown, since the recording joined its
connection without a snapshot, is a row without one. It covers 30 days, unless `--start` and `--last` say otherwise.
"""

from amqproxy.pipeline.questions.question import DAY, Option, Question

QUESTION = Question(
    name="capacity",
    about=__doc__,
    options=(Option("by", "virtual-host or user", "virtual-host", ("virtual-host", "user")),),
    seconds=30 * DAY,
    limit=1000,
    sql="""
WITH tenants AS (
    SELECT r.virtual_host, CASE WHEN :by = 'user' THEN r.name END AS user,
           CAST(sum(r.published) AS BIGINT) AS published, CAST(sum(r.published_bytes) AS BIGINT) AS published_bytes,
           CAST(sum(r.delivered) AS BIGINT) AS delivered, CAST(sum(r.delivered_bytes) AS BIGINT) AS delivered_bytes
    FROM (
        SELECT a.virtual_host, a.name, a.published, a.published_bytes, a.delivered, a.delivered_bytes
        FROM {rollup_minute} a WHERE a.by = 'all' OR a.by = 'user' AND :by = 'user'
        UNION ALL
        SELECT k.virtual_host, NULL, -k.published, -k.published_bytes, -k.delivered, -k.delivered_bytes
        FROM {rollup_minute} k WHERE k.by = 'user' AND :by = 'user'
    ) r
    GROUP BY 1, 2
)
SELECT t.virtual_host AS virtual_host, t.user AS user, t.published AS published, t.published_bytes AS published_bytes,
       t.delivered AS delivered, t.delivered_bytes AS delivered_bytes,
       t.published_bytes + t.delivered_bytes AS bytes,
       round(CAST(t.published_bytes + t.delivered_bytes AS DOUBLE)
             / CAST(greatest(sum(t.published_bytes + t.delivered_bytes) OVER (), 1) AS DOUBLE), 4) AS share
FROM tenants t
WHERE t.published + t.delivered > 0 OR t.user IS NOT NULL OR :by <> 'user'
ORDER BY bytes DESC, virtual_host, user
""",
)
