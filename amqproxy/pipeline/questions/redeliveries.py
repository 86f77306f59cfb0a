"""Redelivered and unsettled messages of each queue.

For each queue: deliveries, how many of them were redeliveries, and what consumers did with them. Many requeued messages
are wasted work; many unsettled ones point to consumers that die before they acknowledge.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="redeliveries",
    about=__doc__,
    sql="""
SELECT d.queue AS queue, d.virtual_host AS virtual_host, count(*) AS deliveries,
       count(*) FILTER (WHERE d.redelivered) AS redelivered,
       round(CAST(count(*) FILTER (WHERE d.redelivered) AS DOUBLE) / CAST(count(*) AS DOUBLE), 4) AS share,
       count(*) FILTER (WHERE d.outcome = 'acked') AS acked,
       count(*) FILTER (WHERE d.outcome IN ('nacked', 'rejected') AND d.requeue) AS requeued,
       count(*) FILTER (WHERE d.outcome IN ('nacked', 'rejected') AND NOT d.requeue) AS refused,
       count(*) FILTER (WHERE d.outcome = 'recovered') AS recovered,
       count(*) FILTER (WHERE d.outcome = 'open') AS left_open
FROM {deliveries} d
GROUP BY d.queue, d.virtual_host
HAVING count(*) FILTER (WHERE d.redelivered OR d.outcome IN ('nacked', 'rejected', 'recovered', 'open')) > 0
ORDER BY redelivered DESC, left_open DESC, queue, virtual_host
""",
)
