"""The interface of a protocol's reading, for `connection_tap`: makes frames, shows them to a tap, and counts them."""

from __future__ import annotations

from typing import Any, Protocol

from amqproxy.peer import Peer
from amqproxy.taps.tap import Tap, TappedSession


class Meter(Protocol):
    """The counts of one connection in the metrics."""

    def channel(self, number: int, /) -> Any:
        """Return the meter of a channel or session; None where messages are not counted."""

    def count_violation(self, sender: Peer, error: Any, /) -> None:
        """Count bytes that cannot be read."""

    def lose(self) -> None:
        """Stop counting messages, after a failure."""

    def close(self) -> None:
        """Count the end of the connection."""


class Reading(Protocol):
    """Frames of one connection after the client's protocol header, counted in the tallies of the metrics."""

    @property
    def meter(self) -> Meter | None:
        """The meter, if there are metrics."""

    def take_header(self, data: bytes, /) -> tuple[bytes, bytes]:
        """Return the broker's protocol header, once it is complete, and the bytes after it."""

    def read(self, sender: Peer, data: bytes, /) -> tuple[bool, Any]:
        """Return whether whole frames were read, and the error after them, which ends the reading of this peer."""

    def show(self, tap: Tap, connection: TappedSession, sender: Peer, /) -> None:
        """Show a tap the frames that were read last."""

    def count(self, sender: Peer, now: float, /) -> None:
        """Count the frames that were read last, by the meter; `now` is in seconds."""
