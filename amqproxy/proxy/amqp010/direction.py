"""One direction of a 0-10 session: a peer's bytes, parsed into frames, or relayed unread if they cannot be parsed."""

from __future__ import annotations

from collections.abc import Callable

import trio

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.amqp010.interception.interceptor import Amqp010Interceptor
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.pass_through import Amqp010PassThrough
from amqproxy.proxy.leg import QUANTUM_FRAMES
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.relay import Pacing

PIECE = 16 * 1024
"""Bytes processed between two checks of the time; a passage that must read them takes at most `QUANTUM_FRAMES`."""


class Amqp010Direction:
    """The `Direction` from `source` to `target`.

    `begin` is called before a chunk is taken, and may replace the passage. `note` is called once the passage has taken
    frames, with true if the server has sent them, and the time when they were read. `greet` takes a peer's protocol
    header and returns whether frames follow; if the connection `is_open` already, no header comes. From a malformed or
    disallowed frame on, a peer's bytes pass unread, unless the passage `must_read`: `on_violation` is called once for
    each peer. An internal error does not end the connection either: `on_fault` is called for it.
    """

    __slots__ = (
        "_begin",
        "_data",
        "_error",
        "_first",
        "_greet",
        "_header",
        "_is_taken",
        "_note",
        "_on_fault",
        "_on_violation",
        "_source",
        "_start",
        "_target",
        "_unsent",
        "drain",
        "is_read",
        "pacing",
        "passage",
    )

    held_size = 0
    """Zero, since these bytes are not charged to the session's memory: a frame has 64 KiB at most."""

    def __init__(
        self,
        source: Amqp010Leg,
        target: Amqp010Leg,
        passage: Amqp010PassThrough | Amqp010Interceptor,
        begin: Callable[[], None],
        note: Callable[[bool, bytes | memoryview, float], None],
        greet: Callable[[Peer, bytes], bool],
        on_violation: Callable[[Peer, ProtocolError], None],
        on_fault: Callable[[Peer, Exception], None],
        *,
        is_open: bool = False,
    ) -> None:
        self._source = source
        self._target = target
        self.passage = passage
        self.pacing: Pacing | None = None
        self.drain: Farewell | None = None
        self.is_read = True
        self._begin = begin
        self._note = note
        self._greet = greet
        self._on_violation = on_violation
        self._on_fault = on_fault
        self._first: bytes | None = None if is_open else b""
        self._header = b""
        self._data = b""
        self._start = 0
        self._error: ProtocolError | None = None
        self._is_taken = False
        self._unsent: list[bytes] = []

    @property
    def error(self) -> ProtocolError | None:
        return self._error or (self._source.reader.error if self.is_read and self._is_taken else None)

    @property
    def has_more(self) -> bool:
        return self._start < len(self._data) or (self.is_read and self._source.reader.is_paused)

    @property
    def is_steady(self) -> bool:
        return self.is_read and self._first is None

    @property
    def rest(self) -> bytes:
        return b"" if self.passage.must_read else b"".join(self._unsent)

    def take(self, data: bytes) -> bytes | memoryview | None:
        if data:
            self._data, self._start = data, 0
        self._is_taken = False
        if self.is_read and self._source.reader.is_paused:
            return self._read(b"")
        data = self._data
        if len(data) > PIECE:
            data = data[self._start : self._start + PIECE]
        self._start += PIECE
        if self._start >= len(self._data):
            self._data = b""
        if not self.is_read:
            return data
        if self._first is None:
            return self._read(data)
        return self._take_header(self._first, data)

    def finish(self, output: bytes | memoryview, began: float) -> bytes | memoryview:
        if self._is_taken:
            reader = self._source.reader
            if reader.error is not None:
                reader.error.received = reader.refused
                if not self.passage.must_read:
                    output = self._stop_reading(output, reader.error)
            self._note(self._source.peer is not CLIENT, output, began)  # may fail: must precede clearing `_unsent`
            if reader.taken_frames and self.is_read:
                self._unsent = [reader.held] if reader.held_size else []
        return self._behind_header(output)

    def take_unfed(self) -> bytes:
        unfed, self._data = self._data[self._start :], b""
        return unfed

    def recover(self, failure: Exception) -> bytes | memoryview | None:
        if self.passage.must_read:
            return None
        self._read_no_more()
        self.passage.take_output(self._target.peer)  # discarded: the unsent bytes include it
        self._on_fault(self._source.peer, failure)
        return self._behind_header(self._take_unsent())

    def resume_after_pump(self) -> None:
        if self.is_read and not self._source.reader.held_size:
            self._unsent = []  # the pump has sent the bytes held when it took the connection

    def _read(self, data: bytes) -> bytes | None:
        if self.drain is not None and self.drain.is_leaving:
            return self._take_last(data)
        self._unsent.append(data)
        reader = self._source.reader
        if not reader.is_paused:
            self._begin()
        passage = self.passage
        reader.quantum = QUANTUM_FRAMES if passage.must_read else 0
        frames = self._frames(data)
        self._is_taken = True
        try:
            passage.take(self._source.peer, frames, trio.current_time())
        except ProtocolError as error:
            self._error = error
        return None

    def _frames(self, data: bytes) -> list[Frame]:
        reader = self._source.reader
        return reader.resume() if reader.is_paused else reader.feed(data)

    def _take_last(self, data: bytes) -> bytes:
        """Process the last frames of the source, after the client has been sent connection.close."""
        if self._source.reader.error is None:
            for frame in self._frames(data):
                self._source.take_last(frame)
        return b""

    def _stop_reading(self, output: bytes | memoryview, error: ProtocolError) -> bytes:
        """Relay everything unread after the output, where the peer's violation begins; return the bytes to send."""
        self._unsent = [b"".join((output, error.received))]
        self._read_no_more()
        self._on_violation(self._source.peer, error)
        return self._take_unsent()

    def _read_no_more(self) -> None:
        """Relay all further bytes unread, so that the target's bytes may end within a frame."""
        self.is_read = self._target.is_framed = False
        self._error = None

    def _take_unsent(self) -> bytes:
        unsent, self._unsent = b"".join(self._unsent), []
        return unsent

    def _take_header(self, first: bytes, data: bytes) -> bytes | None:
        """Take a peer's protocol header, which may come in pieces; frames follow if it is the one of 0-10."""
        missing = SIZE - len(first)
        header, rest = data[:missing], data[missing:]
        self._first = first = first + header
        if not HEADER.startswith(first):
            if len(first) < SIZE and first.startswith(HEADER[:4]):
                return data  # the version is still to come
            self._read_no_more()
            self._greet(self._source.peer, first)
            return data
        if len(first) < SIZE:
            return data
        self._first = None
        self._unsent = [data]  # all of it passes if the greeting fails
        if not self._greet(self._source.peer, HEADER):
            self._read_no_more()
            return self._take_unsent()
        self._unsent = []
        self._header = header
        return self._read(rest) if rest else b""

    def _behind_header(self, output: bytes | memoryview) -> bytes | memoryview:
        header, self._header = self._header, b""
        return b"".join((header, output)) if header else output
