"""One direction of a 0-9-1 session: a peer's bytes, parsed into frames or relayed as unexamined chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.amqp091.handshake import PacedHandshake
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.relay import Pacing
from amqproxy.taps.amqp091.chunk import Amqp091Chunk


class Amqp091Direction:
    """The `Direction` from `source`.

    `note` takes a chunk that the client has sent (false) or is sent (true), with the time when it was read; `show`
    takes the bytes that bypass the passage, while there are taps. `culprit` is the frame that caused `error`, if it is
    known.
    """

    __slots__ = ("_note", "_show", "_source", "culprit", "drain", "error", "has_more", "held_size", "pacing", "passage")

    def __init__(
        self,
        source: Amqp091Leg,
        passage: Passage,
        note: Callable[[bool, bytes | memoryview, float], None],
        show: Callable[[Peer, Sequence[Frame]], None],
        pacing: PacedHandshake | None = None,
    ) -> None:
        self._source = source
        self._note = note
        self._show = show
        self.passage = passage
        self.pacing: Pacing | None = pacing
        self.drain: Farewell | None = None
        self.error: ProtocolError | None = None
        self.has_more = source.reader.is_paused
        self.held_size = 0
        self.culprit: Frame | None = None

    @property
    def is_steady(self) -> bool:
        return self.pacing is None

    @property
    def rest(self) -> bytes:
        return self._source.reader.held

    def take(self, data: bytes) -> bytes | memoryview | None:
        reader, passage = self._source.reader, self.passage
        frames = reader.resume() if self.has_more else reader.feed(data)
        self.error = reader.error
        self.has_more, self.held_size = reader.is_paused, reader.held_size
        if not frames and passage.relays_unseen:
            if passage.is_tapped and reader.taken:
                self._show(self._source.peer, Amqp091Chunk(reader.taken, reader.taken_from, reader.taken_frames))
            return reader.taken
        try:
            passage.take(self._source.peer, frames, trio.current_time())
        except ProtocolError as error:
            self.error = error
        if self.error is not None:
            self.culprit = culprit_of(frames, self.error)
        return None

    def finish(self, output: bytes | memoryview, began: float) -> bytes | memoryview:
        is_client = self._source.peer is CLIENT
        self._note(not is_client, self._source.reader.taken if is_client else output, began)
        return output

    def take_unfed(self) -> bytes:
        return b""

    def recover(self, failure: Exception) -> None:
        return None

    def resume_after_pump(self) -> None:
        """Resume as it is: the pump leaves the reader at the start of a frame."""


def culprit_of(frames: list[Frame], error: ProtocolError) -> Frame | None:
    """Return the frame among `frames` that an error is about; `None` if it is not among them."""
    offset = error.offset
    if offset is None:
        return None
    return next((frame for frame in frames if frame.offset <= offset < frame.offset + frame.length()), None)
