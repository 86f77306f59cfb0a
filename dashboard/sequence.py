"""Sequence diagrams as JSON: ladders of commands between client, proxy and broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amqproxy.capture.decoded import Decoded
from amqproxy.views.ladder import Ladder, LadderGroup, LadderRow
from amqproxy.views.passed_commands import commands_of

LANES = ("client", "proxy", "broker")


def ladder_of(decoded: Iterable[Decoded], most: int) -> Ladder:
    """Build a ladder of at most `most` rows."""
    ladder = Ladder(most)
    for command in commands_of(decoded):
        ladder.add(command)
    return ladder


def ladder_json(ladder: Ladder) -> dict[str, Any]:
    """Return a ladder in its JSON form."""
    return {
        "lanes": LANES,
        "sections": [
            {
                "stream": section.stream,
                "connection": section.connection,
                "name": section.name,
                "end": section.end,
                "has_proxy": section.has_proxy,
                "items": [
                    {"times": item.times, "rows": [_row(row) for row in item.rows]}
                    if isinstance(item, LadderGroup)
                    else _row(item)
                    for _, item in sorted(section.items.items())
                ],
            }
            for section in ladder.sections
        ],
        "left_out": ladder.left_out,
        "left_out_connections": ladder.left_out_connections,
    }


def _row(row: LadderRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "ts_ns": row.ts_ns,
        "last_ts_ns": row.last_ts_ns,
        "channel": row.channel,
        "from": LANES[row.source],
        "to": LANES[row.target],
        "kind": str(row.kind),
        "title": row.title,
        "arguments": row.shown,
        "last": row.last,
        "note": row.note,
        "text": row.text,
        "size": None if row.least is None else {"least": row.least, "most": row.most},
        "count": row.count,
        "differing": sorted(row.differing),
        "is_error": row.is_error,
    }
