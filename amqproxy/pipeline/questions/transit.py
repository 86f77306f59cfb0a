"""Transit times of messages from publisher to consumer.

The time from publish to delivery, across connections, for each exchange and queue: median, 99th percentile and maximum.
It includes the time that messages waited in the queue. Clocks of hosts that differ are corrected, by at most
`most_corrected`; `unsure` are the messages that equal others, so that only their order tells which is which.
`ask clocks` shows the clocks.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="transit",
    about=__doc__,
    sql="""
SELECT d.exchange AS exchange, d.queue AS queue, d.virtual_host AS virtual_host, count(*) AS messages,
       approx_percentile(d.transit_ns, 0.5) AS median_ns, approx_percentile(d.transit_ns, 0.99) AS p99_ns,
       max(d.transit_ns) AS longest_ns,
       max(abs(d.ts_ns - d.published_ns - d.transit_ns)) AS most_corrected_ns,
       count(*) FILTER (WHERE d.published_among > 1) AS unsure
FROM {deliveries} d
WHERE d.transit_ns IS NOT NULL
GROUP BY d.exchange, d.queue, d.virtual_host
ORDER BY p99_ns DESC, exchange, queue, virtual_host
""",
)
