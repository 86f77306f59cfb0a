"""A tap that keeps what it is shown, for tests to look at."""

from collections.abc import Sequence
from typing import Any

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp010.record import TYPES
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot


class Audience:
    """Keeps one line per frame, protocol header and violation."""

    may_miss_frames = False
    joins = 0

    def __init__(self) -> None:
        self.seen: list[str] = []

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        self.seen.append(f"{session.name} {data!r}" if sender is CLIENT else f"{sender} {data!r}")

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if not isinstance(frames, Amqp010Chunk):
            self.seen += [f"{sender} {frame.method.name if frame.kind == 1 else frame.kind}" for frame in frames]
            return
        for frame, number in zip(frames, frames.command_ids, strict=True):
            what = frame.name if frame.index >= 0 else TYPES[frame.kind]
            self.seen.append(f"{sender} {what}" if number is None else f"{sender} {what} #{number}")

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        pass

    def saw_end(self, session: TappedSession, reason: str) -> None:
        pass

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        self.seen.append(f"{sender} {protocol} {data!r}")

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self.seen.append(f"{frames} frames not shown")

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        self.seen.append(f"{sender} {int(error.code)}")
