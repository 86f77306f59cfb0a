"""Entry of a ring: the decoded traffic of one packet, with its row numbers."""

from __future__ import annotations

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.taps.dialects import chunk_of


class RingEntry(msgspec.Struct, frozen=True, gc=False):
    """Decoded traffic of one packet: `count` rows from `seq` on; the end of a connection has no row.

    `came_at` is its arrival on the monotonic clock.
    """

    seq: int
    count: int
    came_at: float
    decoded: Decoded | MissingFrames
    cost: int

    @property
    def ts_ns(self) -> int:
        return self.decoded.ts_ns

    def fresh(self) -> Decoded | MissingFrames:
        """Return a copy for one reader, so that the frame objects that it creates are not retained."""
        decoded = self.decoded
        if isinstance(decoded, DecodedFrames) and (chunk := chunk_of(decoded.frames)) is decoded.frames:
            return msgspec.structs.replace(decoded, frames=chunk.unmade())
        return decoded
