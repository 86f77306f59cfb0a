"""Entries of a recording: frames and events of a session, each with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.recording.dialects import AMQP091, Dialect
from amqproxy.taps.note import NOTHING, Note

CLIENT_LEG = "client"
UPSTREAM_LEG = "upstream"
LEGS = {CLIENT: CLIENT_LEG, SERVER: UPSTREAM_LEG}
"""The leg of each peer, as named in notes and in the interfaces of a recording."""


@dataclass(slots=True, eq=False)
class RecordedConnection:
    """A session, as a recording identifies it.

    `number` counts the sessions of a run. `name` holds both addresses of the client's connection, the client's first;
    `upstream_name` those of the connection to the broker, the proxy's first, "" until that is known or if it has no
    addresses. `is_joined` if the session was open before the recording began, so that its beginning is missing.
    `is_shared` if it is not a session but a connection to the broker that several sessions share.
    """

    number: int
    name: str
    is_tls: bool
    is_joined: bool
    upstream_name: str = ""
    dialect: Dialect = AMQP091
    is_shared: bool = False


class Lost(NamedTuple):
    """Frames of one sender that passed on a leg without being recorded: their number, and their size in bytes."""

    leg: str
    frames: int
    size: int


class Ended(NamedTuple):
    """The end of the session, with its reason."""

    reason: str


class Violation(NamedTuple):
    """A protocol violation that ended the session; the entry's data holds the offending bytes, if known.

    `offset` is the position in the sender's byte stream.
    """

    code: int
    text: str
    channel: int | None = None
    offset: int | None = None


class Snapshot(NamedTuple):
    """State of the session between two frames, as its peer on `leg` sees it; the entry's data holds the bytes."""

    leg: str


class FileEnd(NamedTuple):
    """Place at which the next file begins: each session shows its state after it, before its next frames."""


Event: TypeAlias = Lost | Ended | Violation | Snapshot | FileEnd


class Entry(NamedTuple):
    """Whole frames of one sender, or a peer's first bytes, or an event.

    The note's leg is the one they passed on, "client" or "upstream"; "" for both.
    """

    ts_ns: int
    connection: RecordedConnection
    sender: Peer
    data: bytes
    note: Note
    event: Event | None = None

    @property
    def frames(self) -> int:
        """Approximate number of frames, at least one if there is data of a peer."""
        if isinstance(self.event, Snapshot):
            return 0
        return self.connection.dialect.count_frames(self.data)


NO_CONNECTION = RecordedConnection(0, "", is_tls=False, is_joined=True)


def file_end() -> Entry:
    """Return the entry behind which the next file begins."""
    return Entry(0, NO_CONNECTION, CLIENT, b"", NOTHING, FileEnd())
