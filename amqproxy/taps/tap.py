"""What a tap is to the proxy: an observer of what passes, without influence on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError


def present() -> int:
    """The time of day in nanoseconds since 1970: when a tap is shown what passes, unless it is shown later."""
    return time.time_ns()


class TappedSession(Protocol):
    """What a tap may know of a session.

    `number` counts the sessions of this run; `name` is both ends' addresses, the client's first. `is_tls` is whether
    the client's connection is encrypted. `upstream_name` is both ends' addresses of the connection to the broker, ours
    first; "" for as long as there is none, and where it has no addresses. `stalled_ns` is for how long the broker has
    taken nothing of what waits to be sent to it, as of the last look; 0 while it takes something.
    """

    number: int
    name: str
    is_tls: bool
    stalled_ns: int

    @property
    def upstream_name(self) -> str: ...


class Tap(Protocol):
    """Is shown what a session relays, once it is decided and before it is sent on. Must not wait."""

    @property
    def requires_decoding(self) -> bool:
        """Is a client whose protocol is not decoded to be refused, rather than to pass unseen?"""

    @property
    def may_miss_frames(self) -> bool:
        """Need it not be shown every frame, where that takes too much time?"""

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        """Take a peer's first bytes: eight, or fewer when they are of no AMQP. Not every server sends some."""

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        """Take frames of `sender`, in order. `note` is what rules did to the command that they belong to.

        Frames that were read together come as a `FrameChunk`, which is valid during this call only: a tap that keeps it
        keeps what `unmade` returns. `dialects.chunk_of` makes a chunk of those that come one by one.
        """

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        """So many frames, of both peers, were not shown, since that would have taken too much time."""

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        """Take what `sender` did wrong, for which the session ends, or its frames are not shown any more.

        The error has the bytes, as far as they were received, where they are not shown as frames.
        """

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """The session is over; nothing more comes of it."""
