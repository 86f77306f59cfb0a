"""Publishers to an exchange.

Each user and client program that published to `--exchange` in the requested span: its messages, bytes and connections,
the first and last time, and how many messages were returned as unroutable or refused. The default exchange is
`--exchange ''`; `--routing-key` narrows it to one key (on the default exchange: one queue).
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="publishers",
    about=__doc__,
    options=(
        Option("exchange", "the exchange; '' for the default exchange", is_required=True),
        Option("routing_key", "only messages with this routing key"),
    ),
    sql="""
SELECT m.user AS user, m.client AS client, m.virtual_host AS virtual_host, count(*) AS messages,
       CAST(sum(m.size) AS BIGINT) AS bytes, count(DISTINCT m.connection_id) AS connections,
       count(*) FILTER (WHERE m.route = 'returned') AS returned,
       count(*) FILTER (WHERE m.outcome = 'nacked') AS nacked,
       min(m.time) AS first, max(m.time) AS last
FROM {messages} m
WHERE m.exchange = :exchange AND (:routing_key IS NULL OR m.routing_key = :routing_key)
GROUP BY m.user, m.client, m.virtual_host
ORDER BY messages DESC, user, client, virtual_host
""",
)
