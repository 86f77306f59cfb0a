"""Second reading of the bytes between a 0-10 client and the broker, for taps and counters."""

from __future__ import annotations

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.broker.server.amqp010.connection_meter import Amqp010ConnectionMeter
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap, TappedSession


class Amqp010Reading:
    """Frames of one 0-10 connection after the client's protocol header."""

    def __init__(self, metrics: Metrics | None) -> None:
        self.meter = None if metrics is None else Amqp010ConnectionMeter(metrics)
        self._readers: dict[Peer, FrameReader | None] = {}
        self._numberings = {peer: CommandNumbering() for peer in Peer}
        self._header = b""
        self._has_header = False
        self._taken: FrameReader | None = None
        self._frames: list[Frame] = []
        self._command_ids: list[int | None] = []
        for peer in Peer:
            reader = self._readers[peer] = FrameReader(
                None if metrics is None else metrics.amqp010_tallies[peer], frame_max=0
            )
            reader.zero_copy = True
        client = self._readers[CLIENT]
        assert client is not None
        client.skip(SIZE)

    def take_header(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the broker's protocol header, once it is complete, and the bytes after it."""
        if self._has_header:
            return b"", data
        missing = SIZE - len(self._header)
        self._header += data[:missing]
        if len(self._header) < SIZE:
            return b"", b""
        self._has_header = True
        server = self._readers[SERVER]
        assert server is not None
        server.skip(SIZE)
        return HEADER, data[missing:]

    def read(self, sender: Peer, data: bytes) -> tuple[bool, ProtocolError | None]:
        """Return whether whole frames were read, and the error after them."""
        reader = self._readers[sender]
        if reader is None:
            return False, None
        self._taken, self._frames = reader, reader.feed(data)
        error = reader.error
        if error is not None:
            self._readers[sender] = None
            error.received = reader.refused
        self._command_ids = self._numberings[sender].numbers(self._frames)
        return bool(self._frames), error

    def show(self, tap: Tap, connection: TappedSession, sender: Peer) -> None:
        """Show a tap the frames that were read last, with the ids of their commands."""
        assert self._taken is not None
        chunk = Amqp010Chunk(bytes(self._taken.taken), self._taken.taken_from, self._command_ids)
        tap.saw_frames(connection, sender, chunk)

    def count(self, sender: Peer, now: float) -> None:
        """Count the frames that were read last."""
        if self.meter is not None:
            assert self._taken is not None
            self.meter.count(sender, self._frames, self._taken.taken, now)
