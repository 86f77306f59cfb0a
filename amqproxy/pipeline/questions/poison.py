"""Sources of poison messages.

Messages that consumers refused without requeueing them, or that were delivered at least `--times` times: their
publishers and destinations, and the consumers that failed on them. `messages` counts different contents; `example` is
the digest of one of them: `ask message --digest` shows its course. The publisher is unknown if its publish was not
recorded.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="poison",
    about=__doc__,
    options=(Option("times", "number of deliveries that makes a message poison", 3),),
    sql="""
WITH refused AS (
    SELECT d.*, (d.outcome IN ('rejected', 'nacked') AND d.requeue = FALSE) AS is_refused
    FROM {deliveries} d
    WHERE (d.outcome IN ('rejected', 'nacked') AND d.requeue = FALSE) OR d.redelivery_count + 1 >= :times
)
SELECT m.user AS publisher, m.client AS publisher_client, d.exchange AS exchange, d.routing_key AS routing_key,
       d.queue AS queue, d.user AS consumer, d.client AS consumer_client, d.virtual_host AS virtual_host,
       count(DISTINCT d.digest) AS messages, count(*) AS deliveries,
       count(*) FILTER (WHERE d.is_refused) AS refused, max(d.redelivery_count) + 1 AS most_deliveries,
       max(d.time) AS last, max(d.digest) AS example
FROM refused d
LEFT JOIN {all_messages} m ON m.connection_id = d.published_connection_id AND m.channel = d.published_channel
     AND m.epoch = d.published_epoch AND m.number = d.published_number
GROUP BY m.user, m.client, d.exchange, d.routing_key, d.queue, d.user, d.client, d.virtual_host
ORDER BY deliveries DESC, queue, publisher, publisher_client, routing_key
""",
)
