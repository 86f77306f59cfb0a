"""Recent message rates of each exchange and each queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from dashboard.message_ring import MessageRow

SPAN_NS = 60 * 1_000_000_000
"""Time before the newest message in which messages are counted, in nanoseconds."""

SECONDS = 0.5
"""Seconds for which rows are counted; after it the rates are those of the rows counted so far."""

CHECKED = 1024
"""Rows that are counted between two checks of the clock."""

MAX_NAMES = 10_000
"""Maximum number of exchanges, and of queues, that are counted; of more, the most recently used."""

DEFAULT = "(default)"
"""Display name of the default exchange, whose name is empty."""


class MessageRates(msgspec.Struct, frozen=True):
    """Messages per second by name; `seconds` is the time that they cover, 0 if it is too short to compute rates."""

    published: dict[str, float]
    delivered: dict[str, float]
    seconds: float
    messages: int


class _Record(msgspec.Struct):
    """The fields of a record that are counted."""

    exchange: str | None = None
    queue: str | None = None


_decode = msgspec.json.Decoder(_Record).decode


def message_rates(rows: list[MessageRow], clock: Callable[[], float] = time.monotonic) -> MessageRates:
    """Return the rates of the last minute's messages, computed within `SECONDS`."""
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
