"""Interface of taps: observers of the traffic without influence on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

UNKNOWN_JOINS = -1
"""`Tap.joins` of a tap that has not been shown all frames of a session."""


def present() -> int:
    """Return the time in nanoseconds since 1970: the clock of taps that are shown the traffic as it passes."""
    return time.time_ns()


def offset_of(ts_ns: int) -> int:
    """Return the nanoseconds to be added to times of `time.perf_counter` for those of a clock that is at `ts_ns`."""
    return ts_ns - time.perf_counter_ns()


class TappedSession(Protocol):
    """The facts about a session that are available to taps.

    `number` counts the sessions of this run; `name` is both ends' addresses, the client's first. `is_tls` is whether
    the client's connection is encrypted. `upstream_name` is both ends' addresses of the connection to the broker, ours
    first; "" while there is none, if it has no addresses, and while other sessions share it. `stalled_ns` is for how
    long the broker has taken none of the bytes that wait to be sent to it, as of the last check; 0 while it takes some.
    """

    number: int
    name: str
    is_tls: bool
    stalled_ns: int

    @property
    def upstream_name(self) -> str: ...


class Tap(Protocol):
    """Observer of the frames that a session relays, called after rules and before forwarding. Must not block."""

    @property
    def may_miss_frames(self) -> bool:
        """Whether frames may be withheld from the tap if showing them takes too much time."""

    @property
    def joins(self) -> int:
        """Number of times that the tap has joined running sessions; each shows its state before its next frames."""

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        """Take a peer's first bytes: eight, or fewer if they are not AMQP. Not every server sends a protocol header."""

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        """Take frames of `sender`, in order. `note` is the effect of rules on the command that they belong to.

        Frames that were read together come as a `FrameChunk`, which is valid during this call only: a tap that keeps it
        must keep the result of `unmade`. `dialects.chunk_of` makes a chunk of frames that come one by one.
        """

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        """Take bytes behind the protocol header of a protocol that is not decoded, without the secrets of its login."""

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        """Note that `frames` frames of both peers were withheld, since showing them would have taken too much time."""

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        """Take the state of a session after all frames that were shown, or withheld, so far."""

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        """Take a violation by `sender`, after which the session ends, or its frames are no longer shown.

        If the bytes are not shown as frames, the error contains those that were received.
        """

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """Take the end of the session, after which nothing more is shown of it."""


class DecodedOnly:
    """Base class of taps that ignore protocols which are not decoded."""

    __slots__ = ()

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        """Ignore bytes that are not decoded."""
