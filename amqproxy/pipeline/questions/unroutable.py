"""Unroutable messages, and their publishers.

Mandatory messages that the broker returned, by exchange and routing key, with their publishers. The broker silently
drops unroutable messages published without `mandatory`, which are not shown.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="unroutable",
    about=__doc__,
    sql="""
SELECT m.exchange AS exchange, m.routing_key AS routing_key, m.virtual_host AS virtual_host, m.user AS user,
       m.client AS client, m.return_code AS code, m.return_text AS text, count(*) AS messages,
       min(m.time) AS first, max(m.time) AS last
FROM {messages} m
WHERE m.route = 'returned'
GROUP BY m.exchange, m.routing_key, m.virtual_host, m.user, m.client, m.return_code, m.return_text
ORDER BY messages DESC, exchange, routing_key, user
""",
)
