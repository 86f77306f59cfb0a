"""Queue depth, and the age of the oldest message, as far as traffic tells.

`waiting` counts the messages that certainly reached the queue in the requested span (published to it by name, with the
exact routing key of a binding, or along a route on which it got messages before) and were not delivered from it until
the end of the span, or were requeued since. `oldest_age_ns` is the age of the oldest of them then. `delivered_unlinked`
counts first deliveries from the queue whose publish is unknown: some of the waiting messages may be among them, so that
at least `waiting_least` are waiting. `unsettled` counts messages whose last delivery was not seen to be settled: their
consumer has them, or the queue again, if the channel has ended.
`declared` is the number of ready messages in the broker's last answer to queue.declare, at `declared_at`.

Unknown are messages from before the span, those that came by patterns of topics or by headers, and those that the
broker dropped: because of a time to live or a length limit of the queue, which are not evaluated, other than the
message's own expiration. Clients that are not recorded are not seen to publish or to consume.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="queue-depth",
    about=__doc__,
    sql="""
WITH routes AS (
    SELECT d.virtual_host, d.exchange, d.routing_key, d.queue FROM {all_deliveries} d WHERE d.queue <> ''
    UNION
    SELECT r.virtual_host, r.exchange, r.routing_key, r.queue
    FROM {all_requests} r WHERE r.method = 'queue.bind' AND r.queue <> '' AND r.exchange <> ''
    UNION
    SELECT m.virtual_host, m.exchange, m.routing_key, m.routing_key FROM {messages} m WHERE m.exchange = ''
), emptied AS (
    SELECT r.virtual_host, r.queue, max(r.ts_ns) AS ts_ns
    FROM {requests} r WHERE r.method IN ('queue.purge', 'queue.delete') AND r.outcome <> 'unanswered' GROUP BY 1, 2
), ends AS (
    SELECT max(e.ts_ns) AS ts_ns
    FROM (SELECT max(m.ts_ns) AS ts_ns FROM {messages} m UNION ALL SELECT max(d.ts_ns) FROM {deliveries} d) e
), taken AS (
    SELECT d.virtual_host, d.queue, d.published_connection_id, d.published_channel, d.published_epoch,
           d.published_number, max_by(coalesce(d.requeue, FALSE), d.ts_ns) AS is_back,
           max_by(d.outcome IN ('open', 'unknown'), d.ts_ns) AS is_unsettled
    FROM {deliveries} d WHERE d.published_connection_id IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6
), waiting AS (
    SELECT r.virtual_host, r.queue, count(*) AS messages, CAST(sum(m.size) AS BIGINT) AS bytes,
           min(m.ts_ns) AS oldest_ns, min(m.time) AS oldest
    FROM {messages} m
    JOIN routes r ON m.exchange = r.exchange AND m.routing_key = r.routing_key
         AND m.virtual_host IS NOT DISTINCT FROM r.virtual_host
    LEFT JOIN emptied p ON p.queue = r.queue AND p.virtual_host IS NOT DISTINCT FROM r.virtual_host
    LEFT JOIN taken t ON t.published_connection_id = m.connection_id AND t.published_channel = m.channel
         AND t.published_epoch = m.epoch AND t.published_number = m.number AND t.queue = r.queue
    WHERE m.route IS NULL AND m.outcome NOT IN ('nacked', 'rolled back')
          AND NOT (m.outcome = 'open' AND m.confirm_tag IS NULL)
          AND coalesce(m.verdict, '') NOT IN ('refused', 'dropped')
          AND (p.ts_ns IS NULL OR m.ts_ns > p.ts_ns) AND (t.queue IS NULL OR t.is_back)
          AND coalesce(TRY_CAST(m.expiration AS BIGINT) >= ((SELECT max(e.ts_ns) FROM ends e) - m.ts_ns) / 1000000,
                       TRUE)
    GROUP BY 1, 2
), delivered AS (
    SELECT e.virtual_host, e.queue, CAST(sum(e.unsettled) AS BIGINT) AS unsettled,
           CAST(sum(e.unlinked) AS BIGINT) AS unlinked
    FROM (
        SELECT t.virtual_host, t.queue, count(*) FILTER (WHERE t.is_unsettled) AS unsettled, 0 AS unlinked
        FROM taken t GROUP BY 1, 2
        UNION ALL
        SELECT d.virtual_host, d.queue, count(*) FILTER (WHERE d.outcome IN ('open', 'unknown')),
               count(*) FILTER (WHERE NOT d.redelivered)
        FROM {deliveries} d WHERE d.published_connection_id IS NULL GROUP BY 1, 2
    ) e
    WHERE e.queue <> '' GROUP BY 1, 2
), declared AS (
    SELECT r.virtual_host, r.queue, max(r.time) AS last,
           max_by(TRY_CAST(regexp_extract(r.reply_arguments, '"message_count": *([0-9]+)', 1) AS BIGINT), r.ts_ns)
               AS messages
    FROM {requests} r
    WHERE r.method = 'queue.declare' AND r.queue <> '' AND r.outcome = 'answered' AND r.reply_arguments IS NOT NULL
    GROUP BY 1, 2
), queues AS (
    SELECT w.virtual_host, w.queue FROM waiting w
    UNION SELECT d.virtual_host, d.queue FROM delivered d WHERE d.unsettled > 0
    UNION SELECT c.virtual_host, c.queue FROM declared c WHERE c.messages > 0
)
SELECT q.queue AS queue, q.virtual_host AS virtual_host, coalesce(w.messages, 0) AS waiting,
       greatest(coalesce(w.messages, 0) - coalesce(d.unlinked, 0), 0) AS waiting_least, w.bytes AS bytes,
       w.oldest AS oldest, (SELECT max(e.ts_ns) FROM ends e) - w.oldest_ns AS oldest_age_ns,
       coalesce(d.unsettled, 0) AS unsettled, coalesce(d.unlinked, 0) AS delivered_unlinked,
       c.messages AS declared, c.last AS declared_at
FROM queues q
LEFT JOIN waiting w ON w.queue = q.queue AND w.virtual_host IS NOT DISTINCT FROM q.virtual_host
LEFT JOIN delivered d ON d.queue = q.queue AND d.virtual_host IS NOT DISTINCT FROM q.virtual_host
LEFT JOIN declared c ON c.queue = q.queue AND c.virtual_host IS NOT DISTINCT FROM q.virtual_host
ORDER BY waiting DESC, unsettled DESC, declared DESC, queue, virtual_host
""",
)
