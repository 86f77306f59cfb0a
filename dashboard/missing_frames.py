"""Frames that were lost on the way to the dashboard: one row for each loss, across all connections."""

from __future__ import annotations

import msgspec

from amqproxy.taps.record import encoded


class MissingFrames(msgspec.Struct, frozen=True, gc=False):
    """A loss of `count` frames (`None` if unknown) before the row at `ts_ns`, and its reason."""

    ts_ns: int
    count: int | None
    reason: str

    stream = -1
    connection = ""
    leg = ""

    def to_json(self, seq: int) -> bytes:
        """Encode the row as JSON."""
        count = {} if self.count is None else {"count": self.count}
        return encoded({"seq": seq, "type": "gap", "ts_ns": self.ts_ns, **count, "reason": self.reason})
