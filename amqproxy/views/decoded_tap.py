"""The relayed traffic in decoded form, to be rendered as lines later or by another thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amqproxy.amqp091.protocol_header import recognise
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes
from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import DecodedOnly, TappedSession, present
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.views.dialects import decoded_frames

PASSED_COST = 512
"""Approximate overhead in bytes of one tap callback, besides its frames."""

FRAME_COST = 256
"""Approximate overhead in bytes of a frame that is a separate object, besides its data."""

DECODED_FACTOR = 4
"""Approximate ratio of a decoded method or header to its encoded size."""


class DecodedTap(DecodedOnly):
    """Passes decoded traffic to `take`, with its approximate size in memory and the number of records in it.

    `lose` is called with the number of frames that were dropped for lack of time, `wake` after each of both. `clock`
    returns the time of a callback in nanoseconds since 1970.
    """

    may_miss_frames = False
    joins = 0

    def __init__(
        self,
        take: Callable[[Decoded, int, int], object],
        lose: Callable[[int], object],
        wake: Callable[[], object],
        clock: Callable[[], int] = present,
    ) -> None:
        self._take = take
        self._lose = lose
        self._wake = wake
        self._clock = clock

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        protocol = recognise(data) or "unknown"
        header = DecodedProtocolHeader(self._clock(), session.number, session.name, sender, protocol, data)
        self._take(header, PASSED_COST, 1)
        self._wake()

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        chunk = chunk_of(frames).unmade()
        passed = decoded_frames(self._clock(), session.number, session.name, sender, chunk, note)
        self._take(passed, PASSED_COST + chunk.memory(FRAME_COST, DECODED_FACTOR), len(chunk))
        self._wake()

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._lose(frames)
        self._wake()

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        """Ignore the state of a session, which has no line."""

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        passed = SkippedBytes(
            self._clock(),
            session.number,
            session.name,
            sender,
            error.protocol,
            error.reply_text,
            error.offset,
            0,
            code=int(error.code),
            channel=error.channel,
        )
        self._take(passed, PASSED_COST, 1)
        self._wake()

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """Ignore the end of a session, which has no line."""
