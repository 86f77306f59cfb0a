"""What a connection task does with a client's connection, whichever protocol that speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp091.protocol_header import recognise
from amqproxy.amqp091.transitions import Peer
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.clients import ConnectedClient
from amqproxy.broker.connections.closing import SocketClosing


class Liveness(Protocol):
    """How often a client is to be heard of; `heartbeat` is in seconds, 0 for never."""

    @property
    def heartbeat(self) -> int: ...

    def note_received(self, sender: Peer, now: float, /) -> None: ...


class Output(Protocol):
    """What waits to be sent to a client."""

    def is_over(self, most: int, /) -> bool: ...


class ServedClient(ConnectedClient, Protocol):
    """One client's connection; `amqp091.connection` has what its methods do."""

    is_paused: bool

    @property
    def protocol(self) -> Liveness: ...

    @property
    def output(self) -> Output: ...

    @property
    def end(self) -> SocketClosing | None: ...

    @property
    def patience(self) -> float: ...

    @property
    def is_behind(self) -> bool: ...

    @property
    def is_awaiting(self) -> bool: ...

    @property
    def waiting(self) -> int: ...

    def feed(self, data: bytes, now: float, /) -> None: ...

    def take_output(self) -> bytes: ...

    def take_pieces(self) -> list[bytes]: ...

    def sent(self, now: float, /) -> None: ...

    def cut(self, reason: str = "", /) -> None: ...

    def lose(self, now: float, /, *, is_gone: bool = True) -> None: ...


class ProtocolChoice:
    """Chooses by the protocol header which connection serves a client: `found` is that, once it is known.

    Until then, and for everything but AMQP 0-10, it is the one of AMQP 0-9-1, which knows what to answer.
    """

    __slots__ = ("_first", "_received", "_replacement", "found", "is_made")

    def __init__(self, first: Amqp091Connection, replacement: Callable[[], Amqp010Connection]) -> None:
        self.found: ServedClient = first
        self.is_made = False
        self._first = first
        self._received = b""
        self._replacement = replacement

    def feed(self, data: bytes, now: float) -> None:
        """Pass on what the client sent first, which may be any part of a header, and more."""
        self._received += data
        protocol = recognise(self._received)
        self.is_made = protocol is not None
        if protocol == NAME:
            self._first.step_aside()
            self.found = self._replacement()
            data = self._received
        self.found.feed(data, now)
