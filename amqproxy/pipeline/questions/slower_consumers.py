"""Consumers that are slower than the week before.

The time from delivery to acknowledgement of each queue, user and client program, in the requested span and in the
earlier one (a week and the week before, unless `--start`, `--last` or `--before` say otherwise). Listed are those whose
median is at least `--factor` times the earlier one, if both spans have at least `--least` acknowledgements.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="slower-consumers",
    about=__doc__,
    options=(
        Option("factor", "minimum slowdown factor", 1.25),
        Option("least", "minimum acknowledgements in both spans", 20),
    ),
    sql="""
WITH now AS (
    SELECT d.virtual_host, d.queue, d.user, d.client, count(*) AS acked,
           approx_percentile(d.latency_ns, 0.5) AS median_ns, approx_percentile(d.latency_ns, 0.99) AS p99_ns
    FROM {deliveries} d WHERE d.outcome = 'acked' AND d.latency_ns IS NOT NULL GROUP BY 1, 2, 3, 4
), before AS (
    SELECT d.virtual_host, d.queue, d.user, d.client, count(*) AS acked,
           approx_percentile(d.latency_ns, 0.5) AS median_ns, approx_percentile(d.latency_ns, 0.99) AS p99_ns
    FROM {earlier_deliveries} d WHERE d.outcome = 'acked' AND d.latency_ns IS NOT NULL GROUP BY 1, 2, 3, 4
)
SELECT n.queue AS queue, n.virtual_host AS virtual_host, n.user AS user, n.client AS client,
       b.median_ns AS median_before_ns, n.median_ns AS median_now_ns,
       n.median_ns - b.median_ns AS slower_by_ns,
       round(CAST(n.median_ns AS DOUBLE) / CAST(greatest(b.median_ns, 1) AS DOUBLE), 2) AS times_slower,
       b.p99_ns AS p99_before_ns, n.p99_ns AS p99_now_ns, n.acked AS acked
FROM now n JOIN before b ON n.queue IS NOT DISTINCT FROM b.queue
     AND n.virtual_host IS NOT DISTINCT FROM b.virtual_host
     AND n.user IS NOT DISTINCT FROM b.user AND n.client IS NOT DISTINCT FROM b.client
WHERE n.acked >= :least AND b.acked >= :least AND n.median_ns > b.median_ns * :factor
ORDER BY times_slower DESC, queue, user, client
""",
)
