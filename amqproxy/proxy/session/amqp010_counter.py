"""Counts the frames of a connection of AMQP 0-10, which passes through a tunnel as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.amqp010.tally import METHOD_COUNT, Tally
from amqproxy.peer import Peer
from amqproxy.supervision import contained

_NO_METHOD = bytes(METHOD_COUNT)


class AMQP010Counter:
    """Shown what both peers send, from their protocol headers on, it counts their frames into the tallies.

    A peer whose header is not that of 0-10 is not looked at. `on_violation` is called with the first frame of a peer
    that is none, or that may not come; what that peer sends then passes without being counted.
    """

    def __init__(self, tallies: Mapping[Peer, Tally], on_violation: Callable[[Peer, ProtocolError], None]) -> None:
        self._headers: dict[Peer, bytes] = dict.fromkeys(Peer, b"")
        self._readers: dict[Peer, FrameReader | None] = {}
        self._on_violation = on_violation
        for peer in Peer:
            reader = self._readers[peer] = FrameReader(tallies[peer], frame_max=0)
            reader.want(_NO_METHOD, content=False)
            reader.zero_copy = True

    def saw(self, sender: Peer, data: bytes) -> None:
        """Take the bytes that came next from a peer. A fault of our own ends the counting, and never the connection."""
        reader = self._readers[sender]
        if reader is not None:
            with contained("frames not counted any further", then=partial(self._give_up, sender)):
                self._count(sender, reader, data)

    def _give_up(self, sender: Peer, _: Exception) -> None:
        self._readers[sender] = None

    def _count(self, sender: Peer, reader: FrameReader, data: bytes) -> None:
        missing = SIZE - len(self._headers[sender])
        if missing:
            header, data = data[:missing], data[missing:]
            self._headers[sender] += header
            reader.skip(len(header))
            if not HEADER.startswith(self._headers[sender]):
                self._readers[sender] = None
                return
        if not data:
            return
        reader.feed(data)
        if reader.error is not None:
            self._readers[sender] = None
            self._on_violation(sender, reader.error)
