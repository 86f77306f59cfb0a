"""What one of several processes decodes of a capture, all of which read it from start to end."""

from __future__ import annotations

import msgspec

BLOCK_PACKETS = 64
"""Where packets are shared, each process takes so many at a time."""


class Share(msgspec.Struct):
    """Every stream whose number, divided by `shares`, leaves `number`; or, `by_packet`, every block of packets.

    What packets bring about can be shared only where each frame is shown by itself; all processes then decode all of
    it, and so each of them knows of every stream what it has to.

    While a capture is read, `position` is how many packets were read, which is the same in all processes. In the end
    `ignored` is how many of its streams were no AMQP; there is no warning of them.
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
        """Whether what the packet at `position` has brought about is to be shown."""
        return not self.by_packet or self.position // BLOCK_PACKETS % self.shares == self.number
