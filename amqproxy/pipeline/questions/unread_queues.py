"""Queues without readers.

Queues that clients declared, or published to by name, in the requested span, from which nothing was delivered or got in
that time, which no client has polled in it (`basic.get`, also of an empty queue), and which no client that was
connected in it has consumed. A connection that was joined in its middle without a snapshot, or has lost bytes since,
may have a consumer of any queue: with one in that time, no queue of its virtual host is listed. `received` counts the
messages that certainly reached the queue: published to it by name, or with the exact routing key of a binding (topic
patterns and headers are not evaluated, so there may be more). `last_read` is the time of the last earlier delivery from
it, if any. Fullest first.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="unread-queues",
    about=__doc__,
    sql="""
WITH ended AS (
    SELECT a.connection_id FROM {all_connections} a EXCEPT SELECT c.connection_id FROM {connections} c
), unseen AS (
    SELECT DISTINCT c.virtual_host FROM {connections} c WHERE NOT c.knows_consumers
), targets AS (
    SELECT DISTINCT r.virtual_host, r.queue, r.exchange, r.routing_key
    FROM {all_requests} r WHERE r.method = 'queue.bind' AND r.queue <> '' AND r.exchange <> ''
), arrived AS (
    SELECT m.virtual_host, m.routing_key AS queue, count(*) AS messages, sum(m.size) AS bytes, max(m.time) AS last
    FROM {messages} m WHERE m.exchange = '' AND m.route IS NULL GROUP BY 1, 2
    UNION ALL
    SELECT t.virtual_host, t.queue, count(*), sum(m.size), max(m.time)
    FROM {messages} m JOIN targets t ON m.virtual_host = t.virtual_host AND m.exchange = t.exchange
         AND m.routing_key = t.routing_key
    GROUP BY 1, 2
    UNION ALL
    SELECT r.virtual_host, r.queue, 0, 0, NULL FROM {requests} r
    WHERE r.method = 'queue.declare' AND r.queue <> '' AND r.outcome IN ('answered', 'kept')
), readers AS (
    SELECT d.virtual_host, d.queue FROM {deliveries} d
    UNION
    SELECT r.virtual_host, r.queue FROM {requests} r WHERE r.method IN ('queue.delete', 'basic.get')
    UNION
    SELECT r.virtual_host, r.queue FROM {all_requests} r LEFT JOIN ended e ON e.connection_id = r.connection_id
    WHERE r.method IN ('basic.consume', 'message.subscribe') AND e.connection_id IS NULL
), earlier AS (
    SELECT d.virtual_host, d.queue, max(d.time) AS last_read FROM {all_deliveries} d GROUP BY 1, 2
)
SELECT a.queue AS queue, a.virtual_host AS virtual_host, CAST(sum(a.messages) AS BIGINT) AS received,
       CAST(sum(a.bytes) AS BIGINT) AS bytes, max(a.last) AS last_received, max(e.last_read) AS last_read
FROM arrived a
LEFT JOIN readers r ON a.queue = r.queue AND a.virtual_host IS NOT DISTINCT FROM r.virtual_host
LEFT JOIN earlier e ON a.queue = e.queue AND a.virtual_host IS NOT DISTINCT FROM e.virtual_host
WHERE r.queue IS NULL AND NOT EXISTS (
    SELECT 1 FROM unseen u WHERE u.virtual_host IS NULL OR a.virtual_host IS NULL OR u.virtual_host = a.virtual_host
)
GROUP BY a.queue, a.virtual_host
ORDER BY received DESC, queue, virtual_host
""",
)
