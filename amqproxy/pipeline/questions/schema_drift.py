"""Drift of payload schemas: fields of JSON bodies that came, went or changed their type.

For each exchange, as published, and each queue, as delivered: each day (UTC) is compared with the last day before on
which at least `--least` bodies were inspected, as on the day itself. `path` is the place of the field, `$` the body as
a whole: text and binary are bodies that are not JSON. `type_before` and `type_now` are the types, `had_before_share`
and `had_now_share` the parts of the inspected messages that had the field. Latest day first.

It needs the table fields, which `pipeline run --fields` makes: of the first 100 messages of each hour, exchange or
queue and connection, and of one in 100 others, with bodies of up to 64 KiB. Others may have had a rare field.
"""

from amqproxy.pipeline.questions.question import Option, Question

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "text", "binary", "empty")
_TYPE = ", ".join(f"CASE WHEN count(*) FILTER (WHERE d.kind = '{each}') > 0 THEN '{each}' END" for each in _TYPES)
_PLACE = "p.virtual_host, p.exchange, p.queue"
_SAME = """k.exchange = p.exchange AND k.queue IS NOT DISTINCT FROM p.queue
         AND k.virtual_host IS NOT DISTINCT FROM p.virtual_host"""

QUESTION = Question(
    name="schema-drift",
    about=__doc__,
    options=(Option("least", "minimum inspected messages of a day", 20),),
    limit=200,
    sql=f"""
WITH days AS (
    SELECT f.virtual_host, f.exchange, f.queue, unix_micros(f.time) - unix_micros(f.time) % 86400000000 AS day_us,
           f.path, f.kind, CAST(sum(f.count) AS BIGINT) AS messages
    FROM {{fields}} f WHERE f.holds IS NULL AND f.kind <> 'not inspected' GROUP BY 1, 2, 3, 4, 5, 6
), inspected AS (
    SELECT d.virtual_host, d.exchange, d.queue, d.day_us, CAST(sum(d.messages) AS BIGINT) AS messages
    FROM days d WHERE d.path = '$' GROUP BY 1, 2, 3, 4 HAVING sum(d.messages) >= :least
), pairs AS (
    SELECT {_PLACE}, p.day_us, p.messages,
           lag(p.day_us) OVER (PARTITION BY {_PLACE} ORDER BY p.day_us) AS before_us,
           lag(p.messages) OVER (PARTITION BY {_PLACE} ORDER BY p.day_us) AS messages_before
    FROM inspected p
), kinds AS (
    SELECT d.virtual_host, d.exchange, d.queue, d.day_us, d.path, sum(d.messages) AS messages,
           coalesce(nullif(concat_ws(' or ', {_TYPE}), ''), 'null') AS type
    FROM days d GROUP BY 1, 2, 3, 4, 5
), sides AS (
    SELECT {_PLACE}, p.day_us, k.path, CAST(NULL AS STRING) AS before, k.type AS now, 0.0 AS before_share,
           CAST(k.messages AS DOUBLE) / CAST(p.messages AS DOUBLE) AS now_share
    FROM pairs p JOIN kinds k ON k.day_us = p.day_us AND {_SAME} WHERE p.before_us IS NOT NULL
    UNION ALL
    SELECT {_PLACE}, p.day_us, k.path, k.type, NULL, CAST(k.messages AS DOUBLE) / CAST(p.messages_before AS DOUBLE), 0.0
    FROM pairs p JOIN kinds k ON k.day_us = p.before_us AND {_SAME}
), compared AS (
    SELECT {_PLACE}, p.day_us, p.path, max(p.before) AS before, max(p.now) AS now,
           round(least(CAST(max(p.before_share) AS DOUBLE), 1.0), 4) AS before_share,
           round(least(CAST(max(p.now_share) AS DOUBLE), 1.0), 4) AS now_share
    FROM sides p GROUP BY 1, 2, 3, 4, 5
)
SELECT timestamp_micros(c.day_us) AS day, c.exchange AS exchange, c.queue AS queue, c.virtual_host AS virtual_host,
       c.path AS path,
       CASE WHEN c.before IS NULL THEN 'new' WHEN c.now IS NULL THEN 'gone' ELSE 'type changed' END AS change,
       c.before AS type_before, c.now AS type_now, c.before_share AS had_before_share, c.now_share AS had_now_share
FROM compared c WHERE c.before IS DISTINCT FROM c.now
ORDER BY day DESC, exchange, queue, virtual_host, path
""",
)
