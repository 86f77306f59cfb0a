"""SQL that expands settled ranges to a row for each number."""

from __future__ import annotations

KEY = ("connection_id", "channel", "epoch", "number")
"""Key of a settled message. A number may occur twice, with different times."""


def settlements(kind: str) -> str:
    """Return a query with a row for each number in the ranges of events of a type (`publishes-settled` …).

    Messages whose own rows have the outcome are left out. The columns are those of `KEY`, `of_ns` (start of the settled
    message), `settlement`, `settled_ns`, `settled_requeue`.
    """
    return f"""
        SELECT connection_id, channel, epoch, explode(sequence(span.first, span.last)) AS number,
            span.ts_ns AS of_ns, settlement, settled_ns, settled_requeue
        FROM (
            SELECT connection_id, channel, epoch, outcome AS settlement, ts_ns AS settled_ns,
                requeue AS settled_requeue, explode(coalesce(spans_before, spans)) AS span
            FROM {{events}} WHERE type = '{kind}' AND size(coalesce(spans_before, spans)) > 0
        )
    """


_UNKNOWN = 1_000_000
"""Assumed maximum number of spans in an event written before `spans_before` existed."""


def spans_left(kind: str) -> str:
    """Return an aggregate: the number of ranges to be joined."""
    return f"""sum(CASE WHEN type <> '{kind}' THEN 0L WHEN spans_before IS NULL THEN {_UNKNOWN}L
        ELSE CAST(size(spans_before) AS BIGINT) END)"""


def same(one: str, other: str, names: tuple[str, ...] = KEY) -> str:
    """Return the SQL condition that two tables are equal in these columns."""
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def latency_ns() -> str:
    """Return the SQL for the time from the message to its outcome; null if no outcome was seen."""
    return "CASE WHEN outcome NOT IN ('open', 'unknown') THEN settled_ns - ts_ns END"


def is_given_up(age_ns: int | None) -> str:
    """Return the SQL condition that a message has been open for too long to expect an outcome."""
    return "false" if age_ns is None else f"coalesce(horizon_ns - ts_ns >= {age_ns}, true)"


def columns(names: tuple[str, ...] | list[str], of: str = "") -> str:
    """Return the list of column names, of the table with an alias."""
    prefix = f"{of}." if of else ""
    return ", ".join(f"{prefix}`{name}`" for name in names)
