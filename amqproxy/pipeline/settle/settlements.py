"""What was settled, a row for each number, from the ranges in which it was settled: as SQL."""

from __future__ import annotations

KEY = ("connection_id", "channel", "epoch", "number")
"""What a settlement names. A number may come twice, with another time."""


def settlements(kind: str) -> str:
    """A query of a row for each number of the ranges that events of a type (`publishes-settled` …) have.

    Not of those whose own rows have what became of them.

    It has the columns of `KEY`, `of_ns` (when what it settles began), `settlement`, `settled_ns`, `settled_requeue`.
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
"""How many spans there may be at most in an event that was written before `spans_before` was."""


def spans_left(kind: str) -> str:
    """An aggregate: how many ranges there are to be joined."""
    return f"""sum(CASE WHEN type <> '{kind}' THEN 0L WHEN spans_before IS NULL THEN {_UNKNOWN}L
        ELSE CAST(size(spans_before) AS BIGINT) END)"""


def same(one: str, other: str, names: tuple[str, ...] = KEY) -> str:
    """Have two tables, by their aliases, the same in these columns?"""
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def latency_ns() -> str:
    """From the message to what became of it; null where nothing was seen to become of it."""
    return "CASE WHEN outcome NOT IN ('open', 'unknown') THEN settled_ns - ts_ns END"


def is_given_up(age_ns: int | None) -> str:
    """Has a message been open for so long that nothing is to be expected any more?"""
    return "false" if age_ns is None else f"coalesce(horizon_ns - ts_ns >= {age_ns}, true)"


def columns(names: tuple[str, ...] | list[str], of: str = "") -> str:
    """Names of columns, of the table with an alias."""
    prefix = f"{of}." if of else ""
    return ", ".join(f"{prefix}`{name}`" for name in names)
