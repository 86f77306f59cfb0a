"""Counts the frames of a connection of AMQP 0-10, which passes through a tunnel as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.amqp010.tally import METHOD_COUNT, Tally
from amqproxy.peer import Peer

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
        """Take the bytes that came next from a peer."""
        reader = self._readers[sender]
        if reader is None:
            return
        missing = SIZE - len(self._headers[sender])
        if missing:
            self._headers[sender] += data[:missing]
            data = data[missing:]
            if not HEADER.startswith(self._headers[sender]):
                self._readers[sender] = None
                return
            reader.offset = len(self._headers[sender])
        if not data:
            return
        reader.feed(data)
        if reader.error is not None:
            self._readers[sender] = None
            self._on_violation(sender, reader.error)
