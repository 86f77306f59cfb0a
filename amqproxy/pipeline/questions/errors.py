"""Errors, and the clients that they hit.

Errors by kind, reply code, text and method, and by user and client program: closed channels and connections, returned
and nacked publishes, refused logins, and unreadable parts of the recording.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="errors",
    about=__doc__,
    sql="""
SELECT e.kind AS kind, e.code AS code, e.text AS text, e.method AS method, e.virtual_host AS virtual_host,
       e.user AS user, e.client AS client, count(*) AS times, count(DISTINCT e.connection_id) AS connections,
       min(e.time) AS first, max(e.time) AS last
FROM {errors} e
GROUP BY e.kind, e.code, e.text, e.method, e.virtual_host, e.user, e.client
ORDER BY times DESC, kind, code, text, user, client
""",
)
