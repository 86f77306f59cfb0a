"""Transit times of messages from publisher to consumer.

The time from publish to delivery, across connections, for each exchange and queue: median, 99th percentile and maximum.
It includes the time that messages waited in the queue.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="transit",
    about=__doc__,
    sql="""
SELECT d.exchange AS exchange, d.queue AS queue, d.virtual_host AS virtual_host, count(*) AS messages,
       approx_percentile(d.transit_ns, 0.5) AS median_ns, approx_percentile(d.transit_ns, 0.99) AS p99_ns,
       max(d.transit_ns) AS longest_ns
FROM {deliveries} d
WHERE d.transit_ns IS NOT NULL
GROUP BY d.exchange, d.queue, d.virtual_host
ORDER BY p99_ns DESC, exchange, queue
""",
)
