"""Clients that would break on an upgrade of RabbitMQ.

Each use of RabbitMQ that its newest known version refuses (`breaks`), takes differently (`changes`) or has deprecated:
the findings rabbitmq4-* of docs/findings.md, worst first. `client` is its name, `product` the library with its version.
`use` names the queue or exchange, `effect` what RabbitMQ does; `evidence` is a connection that did it. With `rule`, a
rule of the proxy bridges it: `amqproxy readiness --tables DIR --write-rules FILE` writes it.
"""

from collections.abc import Iterable

from amqproxy.pipeline.questions.question import DAY, Question
from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES, Level, kinds_of
from amqproxy.rabbitmq.profile import NEWEST, PROFILES
from amqproxy.taps.findings.rabbitmq4.use_text import PATTERN, UseText


def _texts(texts: Iterable[str]) -> str:
    return ", ".join(f"'{each}'" for each in texts)


def _part(name: str) -> str:
    return f"regexp_extract(s.text, '{PATTERN}', {UseText._fields.index(name) + 1})"


_LEVEL = " ".join(f"WHEN s.kind IN ({_texts(kinds_of(level, PROFILES[NEWEST]))}) THEN '{level}'" for level in Level)
_RANK = " ".join(f"WHEN '{level}' THEN {level.rank}" for level in Level)

QUESTION = Question(
    name="upgrade",
    about=__doc__,
    seconds=28 * DAY,
    limit=200,
    sql=f"""
WITH seen AS (
    SELECT f.connection_id, f.kind, f.virtual_host, f.user, f.client, f.text, coalesce(max(f.count), 1) AS times,
           min(f.time) AS first, max(f.time) AS last, max(f.remedy) AS remedy, max(f.connection) AS evidence
    FROM {{findings}} f WHERE f.kind IN ({_texts(INCOMPATIBILITIES)})
    GROUP BY 1, 2, 3, 4, 5, 6
), uses AS (
    SELECT CASE {_LEVEL} END AS level, s.kind, s.user, s.client, {_part("client")} AS product, s.virtual_host,
           {_part("use")} AS use, {_part("effect")} AS effect, CAST(sum(s.times) AS BIGINT) AS times,
           count(*) AS connections, min(s.first) AS first, max(s.last) AS last, max(s.remedy) AS remedy,
           s.kind IN ({_texts(kind for kind, each in INCOMPATIBILITIES.items() if each.rule)}) AS rule,
           max(s.evidence) AS evidence
    FROM seen s GROUP BY s.kind, s.user, s.client, s.virtual_host, s.text
)
SELECT * FROM uses
ORDER BY CASE level {_RANK} END, kind, times DESC, use, user, client, virtual_host
""",
)


def uses(limit: int) -> Question:
    """Return the question for the uses of all clients, each once.

    Of those beyond the first `limit`, only the kinds and their counts are told: their `use` is NULL.
    """
    return Question(
        name="upgrade-uses",
        about="Uses that RabbitMQ's newest known version refuses, takes differently or has deprecated",
        limit=limit + len(INCOMPATIBILITIES),
        sql=f"""
WITH seen AS (
    SELECT f.kind, f.user, f.text, f.connection_id, coalesce(max(f.count), 1) AS times
    FROM {{findings}} f WHERE f.kind IN ({_texts(INCOMPATIBILITIES)}) GROUP BY 1, 2, 3, 4
), uses AS (
    SELECT s.kind, s.user, {_part("client")} AS product, {_part("use")} AS use, sum(s.times) AS times
    FROM seen s GROUP BY 1, 2, 3, 4
), placed AS (
    SELECT u.*, row_number() OVER (ORDER BY u.times DESC, u.kind, u.use, u.user, u.product) <= {limit} AS is_told
    FROM uses u
)
SELECT p.kind, CASE WHEN p.is_told THEN p.user END AS user, CASE WHEN p.is_told THEN p.product END AS product,
       CASE WHEN p.is_told THEN p.use END AS use, CAST(sum(p.times) AS BIGINT) AS times
FROM placed p GROUP BY 1, 2, 3, 4 ORDER BY times DESC, 1, 4, 2, 3
""",
    )


CONNECTIONS = Question(
    name="upgrade-connections",
    about="Connections that were seen, and those of them whose beginning was not",
    sql="SELECT count(*) AS connections, count(*) FILTER (WHERE c.frame_max IS NULL) AS unknown FROM {connections} c",
)
