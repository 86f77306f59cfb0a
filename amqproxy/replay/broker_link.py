"""What the live connections of a replay have in common, whichever protocol they speak: their socket, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from amqproxy.peer import Peer
from amqproxy.replay.deliveries import DeliveryBoard
from amqproxy.replay.names import ConnectionNames, SharedNames
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.target import Target

NEVER = float("inf")

Watch = Callable[[int, Peer, bytes, float], None]
"""Is shown the bytes that pass on the live connection of a stream, without secrets, their sender and the time."""


class Life(StrEnum):
    """Where the live connection is in its life."""

    NEW = "new"
    """Nothing of it was played."""
    DIALLING = "dialling"
    CONNECTED = "connected"
    ENDED = "ended"


class ReplayedStream(NamedTuple):
    """A recorded connection by its number and name, and what it shares with the others of its copy."""

    stream: int
    connection: str
    target: Target
    names: SharedNames
    board: DeliveryBoard
    result: ReplayResult
    watch: Watch | None = None


class BrokerLink(ABC):
    """One connection to a broker, with the names of its copy. `wake` is called when its socket has something to do.

    `must_dial` asks for a socket; `outbox` are the bytes to send; `ending` is "close" or "reset" when the socket is to
    be closed after that. `error` is why it is over, where it was not asked for.
    """

    def __init__(self, replayed: ReplayedStream, *, wake: Callable[[], None]) -> None:
        self.stream = replayed.stream
        self.connection = replayed.connection
        self.outbox = bytearray()
        self.ending = ""
        self.must_dial = False
        self.has_socket = False
        self.life = Life.NEW
        self.error = ""
        self._target = replayed.target
        self._names = ConnectionNames(replayed.names)
        self._board = replayed.board
        self._result = replayed.result
        self._wake = wake
        self._watch = replayed.watch
        self._has_eof = False
        self._now = 0.0

    def failed(self, reason: str, now: float) -> None:
        """The broker cannot be reached."""
        self._now = now
        self._end_live(reason)

    def receive_end(self, reason: str, now: float) -> None:
        """The live broker has closed the socket, or it is broken."""
        self._now = now
        self._has_eof = True
        if self.life is Life.CONNECTED:
            self._end_live(reason or "the broker closed the connection")

    def fault(self, reason: str) -> None:
        """The live connection cannot go on."""
        self._result.extra_event(reason, self.stream, self.connection, self._now_ns)
        self._close("close")
        self._end_live(reason)

    def _close(self, how: str) -> None:
        if self.life is Life.CONNECTED and not self.ending:
            self.ending = how
            self._wake()

    @abstractmethod
    def _end_live(self, reason: str) -> None:
        """The live connection is over."""

    @property
    def _now_ns(self) -> int:
        return int(self._now * 1e9)
