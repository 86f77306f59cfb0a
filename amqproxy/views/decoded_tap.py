"""What sessions relay, as what captures are decoded to: lines are made of it later, or by another thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amqproxy.amqp091.protocol_header import recognise
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes
from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import TappedSession, present
from amqproxy.views.dialects import decoded_frames

PASSED_COST = 512
"""Bytes that what passed at one time takes, about, besides its frames."""

FRAME_COST = 256
"""Bytes that a frame takes, about, besides its own, where it is an object of its own."""

DECODED_FACTOR = 4
"""How many times the bytes of a method or header its decoded form takes, about."""


class DecodedTap:
    """Gives `take` what has passed, the bytes that it occupies, about, and how many records it is of.

    `lose` is called with how many frames there was no time for, `wake` after each of both. `clock` is when what is
    shown has passed, in nanoseconds since 1970.
    """

    requires_decoding = True
    may_miss_frames = False

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
        """There is no line of it."""
