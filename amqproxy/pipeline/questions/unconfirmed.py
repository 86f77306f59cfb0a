"""Publishers of persistent messages without confirms.

Persistent messages (delivery_mode 2) that were published without confirm mode and transactions, by exchange, user and
client program: if their connection is lost, they may be lost too, and the client is not told.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="unconfirmed",
    about=__doc__,
    sql="""
SELECT m.exchange AS exchange, m.virtual_host AS virtual_host, m.user AS user, m.client AS client,
       count(*) AS messages, count(DISTINCT m.connection_id) AS connections, max(m.time) AS last
FROM {messages} m
WHERE m.outcome = 'sent' AND m.delivery_mode = 2
GROUP BY m.exchange, m.virtual_host, m.user, m.client
ORDER BY messages DESC, exchange, user, client
""",
)
