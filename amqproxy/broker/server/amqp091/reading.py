"""Second reading of the bytes between a 0-9-1 client and the broker, for taps and counters."""

from __future__ import annotations

from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.broker.server.amqp091.connection_meter import Amqp091ConnectionMeter
from amqproxy.broker.server.reading import Reading
from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap, TappedSession


class Amqp091Reading(Reading):
    """Frames of one 0-9-1 connection.

    The broker sends no protocol header, and enforces the frame size limit itself.
    """

    meter: Amqp091ConnectionMeter | None

    def __init__(self, metrics: Metrics | None) -> None:
        super().__init__(
            {peer: FrameReader(None if metrics is None else metrics.tallies[NAME][peer], frame_max=0) for peer in Peer}
        )
        self.meter = None if metrics is None else Amqp091ConnectionMeter(metrics)

    def show(self, tap: Tap, connection: TappedSession, sender: Peer) -> None:
        tap.saw_frames(connection, sender, self._frames)

    def count(self, sender: Peer, now: float) -> None:
        if self.meter is not None:
            self.meter.count(sender, self._frames, now)
