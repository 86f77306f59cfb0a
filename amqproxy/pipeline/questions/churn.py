"""Users that open the most connections, and their duration.

Connections that were open in the requested span, by user and client program: their number, duration, messages per
connection, and how many ended in an error. The duration of one that is still open counts so far. Many short connections
with a message or two each cost broker and client more than the messages themselves.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="churn",
    about=__doc__,
    sql="""
SELECT c.user AS user, c.client AS client, c.virtual_host AS virtual_host, count(*) AS connections,
       approx_percentile(c.closed_ns - c.opened_ns, 0.5) AS median_lifetime_ns,
       round(avg(CAST(c.published + c.delivered AS DOUBLE)), 2) AS messages_each,
       count(*) FILTER (WHERE coalesce(c.code, 0) NOT IN (0, 200)) AS failed, max(c.time) AS last
FROM {connections} c
GROUP BY c.user, c.client, c.virtual_host
ORDER BY connections DESC, user, client, virtual_host
""",
)
