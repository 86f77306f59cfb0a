"""Personal data and secrets in message bodies.

Fields of bodies whose values look like personal data or a secret, for each exchange, as published, and each queue, as
delivered: e-mail addresses, card numbers and IBANs (if their check digits fit), phone numbers, tokens and keys; or
whose names say so (`by name`). `path` is the place in JSON, `$` a body that is not JSON. `messages` counts those of the
inspected messages that had it, `share` is their part. Values are never stored: neither in tables nor in answers.

It needs the table fields, which `pipeline run --fields` makes: of the first 100 messages of each hour, exchange or
queue and connection, and of one in 100 others, with bodies of up to 64 KiB.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="personal-data",
    about=__doc__,
    limit=200,
    sql="""
WITH inspected AS (
    SELECT f.virtual_host, f.exchange, f.queue, sum(f.count) AS messages
    FROM {fields} f WHERE f.path = '$' AND f.holds IS NULL AND f.kind <> 'not inspected'
    GROUP BY 1, 2, 3
), held AS (
    SELECT f.virtual_host, f.exchange, f.queue, f.path, f.holds, CAST(sum(f.count) AS BIGINT) AS messages,
           min(f.time) AS first, max(f.time) AS last
    FROM {fields} f WHERE f.holds IS NOT NULL GROUP BY 1, 2, 3, 4, 5
)
SELECT h.exchange AS exchange, h.queue AS queue, h.virtual_host AS virtual_host, h.path AS path, h.holds AS holds,
       h.messages AS messages, round(least(CAST(h.messages AS DOUBLE) / CAST(i.messages AS DOUBLE), 1.0), 4) AS share,
       h.first AS first, h.last AS last
FROM held h LEFT JOIN inspected i ON i.exchange = h.exchange AND i.queue IS NOT DISTINCT FROM h.queue
     AND i.virtual_host IS NOT DISTINCT FROM h.virtual_host
ORDER BY exchange, queue, virtual_host, path, holds
""",
)
