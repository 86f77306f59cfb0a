"""Publishes and deliveries of one message.

Its publishes and deliveries, in order, selected by `--message-id` or by `--digest`, the hash of its body as shown in
other answers. Everything recorded until the end of the requested span is searched.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="message",
    about=__doc__,
    options=(
        Option("message_id", "the message's property message_id"),
        Option("digest", "the hash of its body"),
    ),
    needs_one=True,
    limit=200,
    sql="""
WITH steps AS (
    SELECT m.ts_ns, m.time, 'publish' AS step, m.user, m.client, m.connection, m.channel, m.exchange, m.routing_key,
           CAST(NULL AS STRING) AS queue, coalesce(m.route, m.outcome) AS outcome, m.latency_ns, FALSE AS redelivered,
           m.message_id, m.digest
    FROM {all_messages} m WHERE m.message_id = :message_id OR m.digest = :digest
    UNION ALL
    SELECT d.ts_ns, d.time, d.kind, d.user, d.client, d.connection, d.channel, d.exchange, d.routing_key,
           d.queue, CASE WHEN d.requeue THEN concat(d.outcome, ', requeued') ELSE d.outcome END, d.latency_ns,
           d.redelivered, d.message_id, d.digest
    FROM {all_deliveries} d WHERE d.message_id = :message_id OR d.digest = :digest
)
SELECT s.time AS time, s.step AS step, s.user AS user, s.client AS client, s.exchange AS exchange,
       s.routing_key AS routing_key, s.queue AS queue, s.redelivered AS redelivered, s.outcome AS outcome,
       s.latency_ns AS latency_ns, s.connection AS connection, s.channel AS channel, s.message_id AS message_id,
       s.digest AS digest
FROM steps s
ORDER BY s.ts_ns, CASE WHEN s.step = 'publish' THEN 0 ELSE 1 END, s.connection, s.channel
""",
)
