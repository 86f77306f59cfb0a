"""How many messages a second went to each exchange, and came from each queue, of late."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from dashboard.message_ring import MessageRow

SPAN_NS = 60 * 1_000_000_000
"""How long ago a message may have passed that is counted, before the newest."""

SECONDS = 0.5
"""How long rows may be counted: then the rates are of those that were."""

CHECKED = 1024
"""Rows that are counted between two looks at the clock."""

MAX_NAMES = 10_000
"""Exchanges, and queues, that are counted; of more, those that were used last."""

DEFAULT = "(default)"
"""What the default exchange is called, which has no name."""


class MessageRates(msgspec.Struct, frozen=True):
    """Messages a second, by names; `seconds` is the time that they are of, 0 where there is too little to tell."""

    published: dict[str, float]
    delivered: dict[str, float]
    seconds: float
    messages: int


class _Record(msgspec.Struct):
    """A record, as far as it is counted."""

    exchange: str | None = None
    queue: str | None = None


_decode = msgspec.json.Decoder(_Record).decode


def message_rates(rows: list[MessageRow], clock: Callable[[], float] = time.monotonic) -> MessageRates:
    """The rates of all messages of the last minute that are kept; it ends in time."""
    stop_at = clock() + SECONDS
    published: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    newest = oldest = rows[-1].ts_ns if rows else 0
    messages = 0
    for looked_at, row in enumerate(reversed(rows), 1):
        if row.ts_ns < newest - SPAN_NS or (looked_at % CHECKED == 0 and clock() > stop_at):
            break
        newest, oldest = max(newest, row.ts_ns), min(oldest, row.ts_ns)
        if row.type == "publish":
            counts, name = published, _decode(row.json).exchange or DEFAULT
        elif row.type in ("deliver", "get"):
            counts, name = delivered, _decode(row.json).queue or ""
        else:
            continue
        messages += 1
        if name and (name in counts or len(counts) < MAX_NAMES):
            counts[name] += 1
    seconds = (newest - oldest) / 1e9
    if not seconds:
        return MessageRates({}, {}, 0.0, messages)
    return MessageRates(_rates(published, seconds), _rates(delivered, seconds), seconds, messages)


def _rates(counts: Counter[str], seconds: float) -> dict[str, float]:
    return {name: count / seconds for name, count in counts.items()}
