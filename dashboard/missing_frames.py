"""Frames that passed and did not come here: one row for all that was lost at a time, on whatever connections."""

from __future__ import annotations

import msgspec

from amqproxy.taps.record import encoded


class MissingFrames(msgspec.Struct, frozen=True, gc=False):
    """So many frames, None where that is not known, before what came at this time; and why."""

    ts_ns: int
    count: int | None
    reason: str

    stream = -1
    connection = ""
    leg = ""

    def to_json(self, seq: int) -> bytes:
        """The row of it."""
        count = {} if self.count is None else {"count": self.count}
        return encoded({"seq": seq, "type": "gap", "ts_ns": self.ts_ns, **count, "reason": self.reason})
