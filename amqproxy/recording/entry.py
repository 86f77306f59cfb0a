"""What a session has shown at one time, on its way into a recording."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.note import Note

CLIENT_LEG = "client"
UPSTREAM_LEG = "upstream"
LEGS = {CLIENT: CLIENT_LEG, SERVER: UPSTREAM_LEG}
"""The legs by the peer at their other end, as notes and the interfaces of a recording have them."""


class RecordedConnection:
    """One session as a recording knows it.

    `number` counts the sessions of a run. `name` is both ends' addresses of the client's connection, the client's
    first; `upstream_name` those of the connection to the broker, ours first, "" until that is known or where it has
    none. `is_joined` when it was open before the recording began, so that its beginning is missing. `is_amqp010` is
    whether it is of AMQP 0-10.
    """

    __slots__ = ("is_amqp010", "is_joined", "is_tls", "name", "number", "upstream_name")

    def __init__(
        self,
        number: int,
        name: str,
        *,
        is_tls: bool,
        is_joined: bool,
        upstream_name: str = "",
        is_amqp010: bool = False,
    ) -> None:
        self.number = number
        self.name = name
        self.is_tls = is_tls
        self.is_joined = is_joined
        self.upstream_name = upstream_name
        self.is_amqp010 = is_amqp010


class Lost(NamedTuple):
    """Frames of one sender that passed on a leg and are not recorded: how many, and of how many bytes."""

    leg: str
    frames: int
    size: int


class Ended(NamedTuple):
    """The session is over, for this reason."""

    reason: str


class Violation(NamedTuple):
    """What the sender did wrong, for which the session ends; the entry's data is what it sent there, if known.

    `offset` is where, in all that it sent.
    """

    code: int
    text: str
    channel: int | None = None
    offset: int | None = None


Event: TypeAlias = Lost | Ended | Violation


class Entry(NamedTuple):
    """Whole frames of one sender, or a peer's first bytes; or else an event.

    The note's leg is where they passed, "client" or "upstream"; "" for both.
    """

    ts_ns: int
    connection: RecordedConnection
    sender: Peer
    data: bytes
    note: Note
    event: Event | None = None
