"""Dependencies of services: publisher, exchange and key, queue, consumer.

A row for each path that messages took: the user and client program that published them, the exchange and routing key
(with `--by exchange`, all keys together), the queue, and the user and client program that received them. `published`
and `failed` count the publisher's messages to that exchange and key, and those of them that were nacked, returned or
stopped by a rule. `delivered` and `refused` count deliveries of the path, and those of them that the consumer nacked or
rejected. `per_second` is the rate over the minutes that were recorded; `p99_ns` is from publish to delivery.

A delivery whose publish was not recorded has no publisher. Messages without a recorded delivery have no queue.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="dependencies",
    about=__doc__,
    options=(Option("by", "key or exchange", "key", ("key", "exchange")),),
    sql="""
WITH who AS (
    SELECT w.connection_id, max(w.user) AS user, max(w.client) AS client
    FROM (SELECT m.connection_id, m.user, m.client FROM {messages} m
          UNION ALL SELECT c.connection_id, c.user, c.client FROM {all_connections} c) w
    GROUP BY 1
), recorded AS (
    SELECT greatest(60 * count(DISTINCT r.time), 60) AS seconds FROM {rollup_minute} r WHERE r.by = 'all'
), sent AS (
    SELECT m.user, m.client, m.virtual_host, m.exchange, CASE WHEN :by = 'key' THEN m.routing_key END AS routing_key,
           count(*) AS published,
           count(*) FILTER (WHERE m.outcome = 'nacked' OR m.route = 'returned'
                            OR m.verdict IN ('refused', 'dropped')) AS failed
    FROM {messages} m GROUP BY 1, 2, 3, 4, 5
), received AS (
    SELECT p.user, p.client, d.virtual_host, d.exchange, CASE WHEN :by = 'key' THEN d.routing_key END AS routing_key,
           d.queue, d.user AS consumer, d.client AS consumer_client, count(*) AS delivered,
           count(*) FILTER (WHERE d.outcome IN ('nacked', 'rejected')) AS refused,
           approx_percentile(d.transit_ns, 0.99) AS p99_ns
    FROM {deliveries} d LEFT JOIN who p ON p.connection_id = d.published_connection_id
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
)
SELECT coalesce(s.user, r.user) AS publisher, coalesce(s.client, r.client) AS publisher_client,
       coalesce(s.exchange, r.exchange) AS exchange, coalesce(s.routing_key, r.routing_key) AS routing_key,
       r.queue AS queue, r.consumer AS consumer, r.consumer_client AS consumer_client,
       coalesce(s.virtual_host, r.virtual_host) AS virtual_host, s.published AS published, s.failed AS failed,
       coalesce(r.delivered, 0) AS delivered, coalesce(r.refused, 0) AS refused,
       round(CAST(coalesce(r.delivered, s.published) AS DOUBLE)
             / CAST((SELECT max(t.seconds) FROM recorded t) AS DOUBLE), 3) AS per_second,
       r.p99_ns AS p99_ns
FROM sent s FULL OUTER JOIN received r ON s.user IS NOT DISTINCT FROM r.user
     AND s.client IS NOT DISTINCT FROM r.client AND s.virtual_host IS NOT DISTINCT FROM r.virtual_host
     AND s.exchange IS NOT DISTINCT FROM r.exchange AND s.routing_key IS NOT DISTINCT FROM r.routing_key
ORDER BY coalesce(r.delivered, s.published) DESC, publisher, publisher_client, exchange, routing_key, queue, consumer,
         consumer_client, virtual_host
""",
)
