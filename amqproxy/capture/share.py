"""The part of a capture that one of several processes decodes, while all of them read it from start to end."""

from __future__ import annotations

import msgspec

BLOCK_PACKETS = 64
"""Packets that each process takes at a time, if packets are shared."""


class Share(msgspec.Struct):
    """Every stream whose number modulo `shares` is `number`; or, `by_packet`, every such block of packets.

    Results of packets can be shared only if each frame is shown on its own; all processes then decode the whole
    capture, so that each has the complete state of every stream.

    During reading, `position` is the number of packets read, which is the same in all processes. At the end, `ignored`
    is the number of the share's streams that were not AMQP; no warning is issued for them.
    """

    number: int
    shares: int
    by_packet: bool = False
    position: int = 0
    ignored: int = 0

    def takes(self, stream: int) -> bool:
        """Whether the stream is decoded."""
        return self.by_packet or stream % self.shares == self.number

    def is_shown(self) -> bool:
        """Whether the results of the packet at `position` are shown."""
        return not self.by_packet or self.position // BLOCK_PACKETS % self.shares == self.number
