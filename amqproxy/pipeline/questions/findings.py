"""Findings: likely mistakes and problems.

The findings of docs/findings.md, worst first, by kind and by user and client program: their number, the connections
concerned, an example, and what to do.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="findings",
    about=__doc__,
    sql="""
SELECT f.severity AS severity, f.kind AS kind, f.virtual_host AS virtual_host, f.user AS user, f.client AS client,
       count(*) AS times, count(DISTINCT f.connection_id) AS connections, max(f.time) AS last,
       max(f.text) AS example, max(f.remedy) AS remedy
FROM {findings} f
GROUP BY f.severity, f.kind, f.virtual_host, f.user, f.client
ORDER BY CASE f.severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, times DESC, kind, user, client
""",
)
