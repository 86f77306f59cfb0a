"""Questions about the tables: named queries, one per file, whose docstrings describe the answers.

    question    what a question is: its options, and a query over the tables
    span        the time that it is about, and the earlier time that it compares with
    answer      the query with the tables in it; the answer, from Spark or from DuckDB
    text        an answer as a table for a person, as JSON lines, or as CSV

All others are questions; `QUESTIONS` has them by name. A query is SQL that Spark and DuckDB understand alike, in which
`{messages}` is the table `messages` within the asked time, `{earlier_messages}` within the time before that, and
`{all_messages}` up to its end; so no query has to say when. Options are named parameters, such as `:exchange`.
"""

from __future__ import annotations

from amqproxy.pipeline.questions import (
    capacity,
    changes,
    churn,
    clients,
    clocks,
    dependencies,
    errors,
    failed_logins,
    findings,
    large_messages,
    message,
    objectives,
    personal_data,
    poison,
    publishers,
    queue_depth,
    queue_users,
    redeliveries,
    schema_drift,
    slow_confirms,
    slower_consumers,
    transit,
    unconfirmed,
    unread_queues,
    unroutable,
    upgrade,
)
from amqproxy.pipeline.questions.question import Option, Question, Table

QUESTIONS: dict[str, Question] = {
    module.QUESTION.name: module.QUESTION
    for module in (
        dependencies,
        publishers,
        queue_users,
        queue_depth,
        unread_queues,
        objectives,
        slower_consumers,
        slow_confirms,
        transit,
        clocks,
        changes,
        capacity,
        poison,
        redeliveries,
        unroutable,
        unconfirmed,
        large_messages,
        message,
        errors,
        failed_logins,
        findings,
        upgrade,
        schema_drift,
        personal_data,
        churn,
        clients,
    )
}
"""All of them, in the order in which they are listed."""

PANELS = ("dependencies", "objectives", "queue-depth", "failed-logins", "changes", "schema-drift", "personal-data")
"""Questions that the dashboard's Analytics and the report show besides their own figures."""

__all__ = ["PANELS", "QUESTIONS", "Option", "Question", "Table"]
