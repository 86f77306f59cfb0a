"""Publishers of the largest messages.

For each exchange, user and client program: the largest body, the median, the 99th percentile, and the sum of bytes.
Only those with a body of at least `--least` bytes are listed.
"""

from amqproxy.pipeline.questions.question import Option, Question

QUESTION = Question(
    name="large-messages",
    about=__doc__,
    options=(Option("least", "minimum bytes of the largest body", 0),),
    limit=20,
    sql="""
SELECT m.exchange AS exchange, m.virtual_host AS virtual_host, m.user AS user, m.client AS client,
       max(m.size) AS largest_bytes, approx_percentile(m.size, 0.99) AS p99_bytes,
       approx_percentile(m.size, 0.5) AS median_bytes, count(*) AS messages, CAST(sum(m.size) AS BIGINT) AS bytes
FROM {messages} m
WHERE m.size IS NOT NULL
GROUP BY m.exchange, m.virtual_host, m.user, m.client
HAVING max(m.size) >= :least
ORDER BY largest_bytes DESC, exchange, user, client
""",
)
