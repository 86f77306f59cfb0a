"""Failed logins by address and user.

Connections that the broker refused before they were open, by the address that they came from (without the port), user
and client program: because of the password, the mechanism, the virtual host or a limit, as `text` says, or by ending
them without a word. `opened` counts the connections from the same address that were opened in the requested span.
Behind a load balancer, the address is the load balancer's. The user is known only if the mechanism shows it.
"""

from amqproxy.pipeline.questions.question import Question

_ADDRESS = "regexp_extract({}.connection, '^(.*?):[0-9]+ *[-→]', 1)"
"""Address of the client, which comes first in the name of a connection."""

QUESTION = Question(
    name="failed-logins",
    about=__doc__,
    sql=f"""
WITH failed AS (
    SELECT {_ADDRESS.format("e")} AS address, e.user, e.client, e.virtual_host, e.code, e.text, e.time
    FROM {{errors}} e WHERE e.kind IN ('login-refused', 'login-cut')
), opened AS (
    SELECT {_ADDRESS.format("c")} AS address, count(*) AS connections
    FROM {{connections}} c WHERE c.latency_ns IS NOT NULL GROUP BY 1
)
SELECT f.address AS address, f.user AS user, f.client AS client, f.virtual_host AS virtual_host, f.code AS code,
       f.text AS text, count(*) AS times, coalesce(max(o.connections), 0) AS opened, min(f.time) AS first,
       max(f.time) AS last
FROM failed f LEFT JOIN opened o ON o.address = f.address
GROUP BY f.address, f.user, f.client, f.virtual_host, f.code, f.text
ORDER BY times DESC, address, user, client, virtual_host, text
""",
)
