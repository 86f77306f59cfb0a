"""Reads once more what a client of AMQP 0-10 and the broker send each other, for taps and counters."""

from __future__ import annotations

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.amqp010.tally import Tally
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk


class Amqp010Reading:
    """One connection, from behind the client's protocol header on; what a peer sends counts into its tally."""

    def __init__(self, tallies: dict[Peer, Tally] | None) -> None:
        self._readers: dict[Peer, FrameReader | None] = {}
        self._numberings = {peer: CommandNumbering() for peer in Peer}
        self._header = b""
        self._has_header = False
        self._taken: FrameReader | None = None
        for peer in Peer:
            reader = self._readers[peer] = FrameReader(None if tallies is None else tallies[peer], frame_max=0)
            reader.zero_copy = True
        client = self._readers[CLIENT]
        assert client is not None
        client.skip(SIZE)

    def take_header(self, data: bytes) -> tuple[bytes, bytes]:
        """Of what the broker sends, its protocol header, once it is whole, and what is behind it."""
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

    def read(self, sender: Peer, data: bytes) -> tuple[list[Frame], list[int | None], ProtocolError | None]:
        """The frames that are now whole, the ids of their commands, and what is wrong behind them.

        What that peer sends then is not read any more.
        """
        reader = self._readers[sender]
        if reader is None:
            return [], [], None
        frames = reader.feed(data)
        self._taken = reader
        error = reader.error
        if error is not None:
            self._readers[sender] = None
            error.received = reader.refused
        return frames, self._numberings[sender].numbers(frames), error

    @property
    def taken(self) -> bytes | memoryview:
        """The bytes of the frames that were read last."""
        assert self._taken is not None
        return self._taken.taken

    def chunk(self, command_ids: list[int | None]) -> Amqp010Chunk:
        """The frames that were read last, as taps are shown them."""
        assert self._taken is not None
        return Amqp010Chunk(bytes(self.taken), self._taken.taken_from, command_ids)
