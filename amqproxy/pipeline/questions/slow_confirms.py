"""Publishes with the slowest confirms.

The slowest single publishes, each with its publisher, destination and size: one slow exchange points to its queues
(quorum, lazy, or replicated far away), all exchanges to the broker's disk.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="slow-confirms",
    about=__doc__,
    options=(Option("exchange", "only this exchange"),),
    limit=20,
    sql="""
SELECT m.latency_ns AS latency_ns, m.time AS time, m.exchange AS exchange, m.routing_key AS routing_key,
       m.size AS bytes, m.outcome AS outcome, m.user AS user, m.client AS client, m.connection AS connection,
       m.channel AS channel, m.number AS number
FROM {messages} m
WHERE m.outcome IN ('confirmed', 'nacked') AND m.latency_ns IS NOT NULL
      AND (:exchange IS NULL OR m.exchange = :exchange)
ORDER BY latency_ns DESC, time, connection, channel, number
""",
)
