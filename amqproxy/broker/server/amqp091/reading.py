"""Second reading of the bytes between a 0-9-1 client and the broker, for taps and counters."""

from __future__ import annotations

from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import ChannelState, ConnectionState
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.server.amqp091.channel_snapshots import ServedChannelSnapshots
from amqproxy.broker.server.amqp091.connection_meter import Amqp091ConnectionMeter
from amqproxy.broker.server.reading import Reading
from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import json_mapping
from amqproxy.taps.tap import Tap, TappedSession, offset_of
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, HandshakeSnapshot, known_text


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

    def snapshot(self, client: Amqp091Connection, ts_ns: int) -> ConnectionSnapshot | None:
        messages = None if self.meter is None else self.meter.messages
        protocol = client.protocol
        if messages is None or protocol.state is not ConnectionState.OPEN or client.is_over:
            return None
        if any(metered.requests() for metered in messages.channels.values()):
            return None
        if any(channel.state is not ChannelState.OPEN for channel in protocol.channels.values()):
            return None  # the close may not be sent yet
        start_ok = protocol.client
        return ConnectionSnapshot(
            ts_ns=ts_ns,
            protocol=NAME,
            handshake=HandshakeSnapshot(
                user=known_text(client.user.name),
                mechanism=None if start_ok is None else known_text(start_ok.mechanism),
                virtual_host=known_text(protocol.virtual_host),
                client_properties=json_mapping(client.client_properties),
                channel_max=protocol.channel_max,
                frame_max=protocol.frame_max,
                heartbeat=protocol.heartbeat,
            ),
            channels=tuple(ServedChannelSnapshots(client, messages, offset_of(ts_ns))),
        )

    def count(self, sender: Peer, now: float) -> None:
        if self.meter is not None:
            self.meter.count(sender, self._frames, now)
