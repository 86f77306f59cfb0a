"""Shows a tap what a client and the broker send each other, as the proxy does with its sessions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.protocol_header import HEADER, LIKE_0_9_1, recognise
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.supervision import contained
from amqproxy.taps.tap import Tap

_HEADER_BYTES = len(HEADER)


class ConnectionTap:
    """One connection, numbered `number`, as `tap` sees it; its bytes are read once more for that.

    What the client sends is shown before the broker takes it, and what the broker sends before it leaves: so each
    answer is shown after what it answers. A tap that fails is shown no more of this connection.
    """

    def __init__(self, tap: Tap, number: int, name: str, *, is_tls: bool) -> None:
        self.number = number
        self.name = name.replace(" -> ", "-")
        self.is_tls = is_tls
        self._tap: Tap | None = tap
        self._first = b""
        self._is_greeted = False
        self._readers = {peer: FrameReader(frame_max=0) for peer in (CLIENT, SERVER)}  # the broker keeps the limits

    def received(self, data: bytes) -> None:
        """Take what the client has sent."""
        if self._tap is None:
            return
        with self._shown():
            if not self._is_greeted:
                data = self._greet(self._tap, data)
            if data:
                self._show(self._tap, CLIENT, data)

    def sent(self, pieces: Iterable[bytes]) -> None:
        """Take what is going to be sent to the client."""
        if self._tap is None or not self._is_greeted:
            return
        with self._shown():
            for data in pieces:
                self._show(self._tap, SERVER, data)

    def ended(self, reason: str) -> None:
        """The connection is over."""
        if self._tap is not None:
            with self._shown():
                self._tap.saw_end(self, reason)
            self._tap = None

    def _greet(self, tap: Tap, data: bytes) -> bytes:
        """Show the protocol header, once it is whole: what is behind it. Another protocol is not read any further."""
        self._first += data
        protocol = recognise(self._first)
        if protocol is None:
            return b""
        tap.saw_protocol_header(self, self._first[:_HEADER_BYTES])
        if protocol not in LIKE_0_9_1:
            self._tap = None
            tap.saw_end(self, f"the client speaks another protocol: {protocol}")
            return b""
        self._is_greeted = True
        return self._first[_HEADER_BYTES:]

    def _show(self, tap: Tap, sender: Peer, data: bytes) -> None:
        reader = self._readers.get(sender)
        if reader is None:
            return
        frames = reader.feed(data)
        if frames:
            tap.saw_frames(self, sender, frames)
        if reader.error is not None:
            del self._readers[sender]
            tap.saw_violation(self, sender, reader.error)

    def _shown(self) -> AbstractContextManager[None]:
        return contained("tap failed", then=self._lose, client=self.name)

    def _lose(self, failure: Exception) -> None:
        self._tap = None
