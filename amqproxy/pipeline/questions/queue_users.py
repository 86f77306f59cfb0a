"""Users of each queue, and their operations.

Each user and client program that consumed from a queue, got from it or found it empty, declared, bound, purged or
deleted it, or published to it by name (through the default exchange): how often, and the last time. `--queue` narrows
it to one queue.
Messages that reach a queue through bindings are not shown: the broker routes them, and no client names the queue.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="queue-users",
    about=__doc__,
    options=(Option("queue", "only this queue"),),
    limit=200,
    sql="""
WITH used AS (
    SELECT d.virtual_host, d.queue, CASE WHEN d.kind = 'get' THEN 'get' ELSE 'consume' END AS act, d.user, d.client,
           count(*) AS times, max(d.time) AS last
    FROM {deliveries} d GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT r.virtual_host, r.queue, 'get of an empty queue', r.user, r.client, count(*), max(r.time)
    FROM {requests} r WHERE r.method = 'basic.get' AND r.reply = 'basic.get-empty' GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT m.virtual_host, m.routing_key, 'publish', m.user, m.client, count(*), max(m.time)
    FROM {messages} m WHERE m.exchange = '' GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT r.virtual_host, r.queue, CASE WHEN r.method IN ('basic.consume', 'message.subscribe') THEN 'start consumer'
           ELSE replace(r.method, 'queue.', '') END, r.user, r.client, count(*), max(r.time)
    FROM {requests} r
    WHERE r.outcome <> 'kept' AND r.method IN (
        'basic.consume', 'message.subscribe', 'queue.declare', 'queue.bind', 'queue.unbind', 'queue.purge',
        'queue.delete'
    )
    GROUP BY 1, 2, 3, 4, 5
)
SELECT u.queue AS queue, u.virtual_host AS virtual_host, u.act AS act, u.user AS user, u.client AS client,
       CAST(sum(u.times) AS BIGINT) AS times, max(u.last) AS last
FROM used u
WHERE u.queue <> '' AND (:queue IS NULL OR u.queue = :queue)
GROUP BY u.queue, u.virtual_host, u.act, u.user, u.client
ORDER BY queue, virtual_host, times DESC, act, user, client
""",
)
