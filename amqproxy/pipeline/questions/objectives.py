"""Service level objectives of publishing and delivery, and their error budgets.

Two objectives for each exchange and queue: a message is confirmed within `--confirm-ms`, and delivered for the first
time within `--delivery-ms` of its publish. `--objective` percent of all messages in the requested span shall meet them.
`missed` counts the messages that were late, or nacked. The error budget is the number of messages that may miss the
objective; `budget_left_share` is what is left of it, negative once it is overspent. A burn rate of 1 would spend
exactly the budget in the span: `burn_rate` is that of all messages, `last_burn_rate` of the last hour with messages,
`worst_burn_rate` of the `worst_hour`. With `--by hour` each hour has a row, and its budget is what is left after it.

Publishes without confirms, messages whose confirm or delivery was not recorded, and deliveries without a recorded
publish are not counted: a message that is lost misses no objective here.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="objectives",
    about=__doc__,
    options=(
        Option("objective", "percentage of messages that shall meet the objective", 99.9),
        Option("confirm_ms", "milliseconds from publish to confirm", 100.0),
        Option("delivery_ms", "milliseconds from publish to delivery", 1000.0),
        Option("by", "queue or hour", "queue", ("queue", "hour")),
    ),
    limit=200,
    sql="""
WITH measured AS (
    SELECT 'confirm' AS what, m.virtual_host, m.exchange, CASE WHEN m.exchange = '' THEN m.routing_key END AS queue,
           unix_micros(m.time) AS at, m.outcome = 'nacked' OR m.latency_ns > :confirm_ms * 1000000 AS is_missed
    FROM {messages} m WHERE m.outcome IN ('confirmed', 'nacked') AND m.latency_ns IS NOT NULL
    UNION ALL
    SELECT 'delivery', d.virtual_host, d.exchange, d.queue, unix_micros(d.time), d.transit_ns > :delivery_ms * 1000000
    FROM {deliveries} d WHERE d.transit_ns IS NOT NULL AND NOT d.redelivered
), hours AS (
    SELECT m.what, m.virtual_host, m.exchange, m.queue, m.at - m.at % 3600000000 AS hour_us,
           count(*) AS messages, count(*) FILTER (WHERE m.is_missed) AS missed,
           greatest(1 - CAST(:objective AS DOUBLE) / 100, 1e-9) AS allowed
    FROM measured m GROUP BY 1, 2, 3, 4, 5
), burnt AS (
    SELECT h.*, CAST(h.missed AS DOUBLE) / CAST(h.messages AS DOUBLE) / h.allowed AS rate,
           CAST(sum(h.missed) OVER (PARTITION BY h.what, h.virtual_host, h.exchange, h.queue ORDER BY h.hour_us)
                AS BIGINT) AS missed_so_far,
           CAST(sum(h.messages) OVER (PARTITION BY h.what, h.virtual_host, h.exchange, h.queue) AS BIGINT) AS expected,
           max(h.hour_us) OVER (PARTITION BY h.what, h.virtual_host, h.exchange, h.queue) AS last_us
    FROM hours h
), compared AS (
    SELECT b.*, max(b.rate) OVER (PARTITION BY b.what, b.virtual_host, b.exchange, b.queue) AS worst_rate FROM burnt b
), counted AS (
    SELECT c.what, c.exchange, c.queue, c.virtual_host, CASE WHEN :by = 'hour' THEN c.hour_us END AS hour_us,
           CAST(sum(c.messages) AS BIGINT) AS messages, CAST(sum(c.missed) AS BIGINT) AS missed,
           max(c.missed_so_far) AS missed_so_far, max(c.expected) AS expected, max(c.allowed) AS allowed,
           max(CASE WHEN c.hour_us = c.last_us THEN c.rate END) AS last_rate, max(c.worst_rate) AS worst_rate,
           max(CASE WHEN c.rate = c.worst_rate AND c.rate > 0 THEN c.hour_us END) AS worst_us
    FROM compared c GROUP BY 1, 2, 3, 4, 5
)
SELECT c.what AS what, c.exchange AS exchange, c.queue AS queue, c.virtual_host AS virtual_host,
       timestamp_micros(c.hour_us) AS hour, c.messages AS messages, c.missed AS missed,
       round(1 - CAST(c.missed AS DOUBLE) / CAST(c.messages AS DOUBLE), 6) AS met_share,
       round(1 - CAST(c.missed_so_far AS DOUBLE) / CAST(c.expected AS DOUBLE) / c.allowed, 4) AS budget_left_share,
       round(CAST(c.missed AS DOUBLE) / CAST(c.messages AS DOUBLE) / c.allowed, 2) AS burn_rate,
       round(c.last_rate, 2) AS last_burn_rate, round(c.worst_rate, 2) AS worst_burn_rate,
       timestamp_micros(c.worst_us) AS worst_hour
FROM counted c
ORDER BY CASE WHEN :by = 'hour' THEN 0.0 ELSE budget_left_share END, hour, what, exchange, queue, virtual_host
""",
)
