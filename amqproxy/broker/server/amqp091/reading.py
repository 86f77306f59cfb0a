"""Second reading of the bytes between a 0-9-1 client and the broker, for taps and counters."""

from __future__ import annotations

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.broker.server.amqp091.connection_meter import ConnectionMeter
from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap, TappedSession


class Amqp091Reading:
    """Frames of one 0-9-1 connection after the client's protocol header; the broker enforces the limits."""

    def __init__(self, metrics: Metrics | None) -> None:
        self.meter = None if metrics is None else ConnectionMeter(metrics)
        self._readers = {
            peer: FrameReader(None if metrics is None else metrics.tallies[peer], frame_max=0) for peer in Peer
        }
        self._frames: list[Frame] = []

    def take_header(self, data: bytes) -> tuple[bytes, bytes]:
        """Return all of it as frames: the broker sends no header to a client that it serves."""
        return b"", data

    def read(self, sender: Peer, data: bytes) -> tuple[bool, ProtocolError | None]:
        """Return whether whole frames were read, and the error after them."""
        reader = self._readers.get(sender)
        if reader is None:
            return False, None
        self._frames = reader.feed(data)
        error = reader.error
        if error is not None:
            del self._readers[sender]
            error.received = reader.refused
        return bool(self._frames), error

    def show(self, tap: Tap, connection: TappedSession, sender: Peer) -> None:
        """Show a tap the frames that were read last."""
        tap.saw_frames(connection, sender, self._frames)

    def count(self, sender: Peer, now: float) -> None:
        """Count the frames that were read last."""
        if self.meter is not None:
            self.meter.count(sender, self._frames, now)
