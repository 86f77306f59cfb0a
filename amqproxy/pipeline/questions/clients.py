"""Client libraries in use, and their login mechanisms.

Each protocol, product, version and platform of clients, with the users and the SASL mechanism: to find clients to
update, and their users.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="clients",
    about=__doc__,
    sql="""
SELECT c.protocol AS protocol, c.product AS product, c.version AS version, c.platform AS platform,
       c.mechanism AS mechanism, c.user AS user, c.virtual_host AS virtual_host, count(*) AS connections,
       min(c.heartbeat) AS least_heartbeat, max(c.time) AS last
FROM {connections} c
GROUP BY c.protocol, c.product, c.version, c.platform, c.mechanism, c.user, c.virtual_host
ORDER BY protocol, product, version, platform, user, virtual_host, mechanism
""",
)
