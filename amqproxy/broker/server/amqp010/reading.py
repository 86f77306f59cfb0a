"""Second reading of the bytes between a 0-10 client and the broker, for taps and counters."""

from __future__ import annotations

import math
from typing import Any

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER, NAME, SIZE
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.server.amqp010.connection_meter import Amqp010ConnectionMeter
from amqproxy.broker.server.reading import Reading
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.metering.amqp010.channel_snapshots import Amqp010ChannelSnapshots, SessionOnChannel
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import json_mapping
from amqproxy.taps.tap import Tap, TappedSession, offset_of
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, HandshakeSnapshot, known_text


class Amqp010Reading(Reading):
    """Frames of one 0-10 connection, with the ids of their commands."""

    meter: Amqp010ConnectionMeter | None

    def __init__(self, metrics: Metrics | None) -> None:
        tallies = {} if metrics is None else metrics.tallies[NAME]
        super().__init__({peer: FrameReader(tallies.get(peer), frame_max=0) for peer in Peer})
        self.meter = None if metrics is None else Amqp010ConnectionMeter(metrics)
        self._numberings = {peer: CommandNumbering() for peer in Peer}
        self._header = b""
        self._has_header = False
        self._taken: FrameReader = self._readers[CLIENT]
        """The reader that has read last."""
        self._command_ids: list[int | None] = []
        for reader in self._readers.values():
            reader.zero_copy = True
        self._taken.skip(SIZE)

    def take_header(self, data: bytes) -> tuple[bytes, bytes]:
        if self._has_header:
            return b"", data
        missing = SIZE - len(self._header)
        self._header += data[:missing]
        if len(self._header) < SIZE:
            return b"", b""
        self._has_header = True
        self._readers[SERVER].skip(SIZE)
        return HEADER, data[missing:]

    def read(self, sender: Peer, data: bytes) -> tuple[bool, Any]:
        reader = self._readers.get(sender)
        if reader is None:  # what it sends is no longer shown
            return False, None
        self._taken = reader
        found = super().read(sender, data)
        self._command_ids = self._numberings[sender].numbers(self._frames)
        return found

    def show(self, tap: Tap, connection: TappedSession, sender: Peer) -> None:
        chunk = Amqp010Chunk(bytes(self._taken.taken), self._taken.taken_from, self._command_ids)
        tap.saw_frames(connection, sender, chunk)

    def snapshot(self, client: Amqp010Connection, ts_ns: int) -> ConnectionSnapshot | None:
        messages = None if self.meter is None else self.meter.messages
        if messages is None or client.vhost is None or client.is_over or not client.is_open:
            return None
        sessions = [SessionOnChannel(number, session.name) for number, session in client.channels.items()]
        if any(messages.session(each.number) is None for each in sessions):
            return None  # session.attached is not sent yet
        channels = Amqp010ChannelSnapshots(sessions, _none_waits, None, messages, {}, offset_of(ts_ns))
        return ConnectionSnapshot(
            ts_ns=ts_ns,
            protocol=NAME,
            handshake=HandshakeSnapshot(
                user=known_text(client.user.name) or None,
                virtual_host=known_text(client.vhost.name),
                client_properties=json_mapping(client.client_properties),
                channel_max=client.channel_max,
                frame_max=client.frame_max,
                heartbeat=client.liveness.heartbeat,
            ),
            channels=tuple(channels),
        )

    def count(self, sender: Peer, now: float) -> None:
        if self.meter is not None:
            self.meter.count(sender, self._frames, self._taken.taken, now)


def _none_waits(number: int) -> float:
    """Return infinity, the position of the first command that is not shown: the broker has no rules that hold any."""
    return math.inf
