"""Connections to brokers that several sessions share, as recorders are shown them.

Other taps see the clients' legs alone: they would count each message twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol
from weakref import WeakSet

from amqproxy.peer import Peer
from amqproxy.taps.note import Note
from amqproxy.taps.tap import TappedSession

AT_UPSTREAM = Note(leg="upstream")
"""The note of all frames on these connections."""


class SharedLegTap(Protocol):
    """A tap that is shown connections without a client's leg."""

    def saw_shared(self, leg: TappedSession, header: bytes = b"") -> None:
        """Take a connection with its protocol header; without one, it has been open for a while."""

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = ...) -> None:
        """Take frames of `sender`, in order."""

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """Take the end of the connection."""


class SharedLegs:
    """The taps that are shown shared connections; one that fails harms no other.

    `next_number` returns the number of the next connection, which no session has.
    """

    def __init__(self) -> None:
        self.next_number: Callable[[], int] = count(1).__next__
        self.taps: dict[SharedLegTap, Callable[[Exception], None]] = {}

    def add(self, tap: SharedLegTap, failed: Callable[[Exception], None]) -> None:
        """Show connections to a tap; `failed` is called if it raises, after which it is not called any more."""
        self.taps[tap] = failed

    def remove(self, tap: SharedLegTap) -> None:
        self.taps.pop(tap, None)


class SharedLeg:
    """One such connection, between the addresses in `upstream_name`, the proxy's first."""

    is_tls = False
    stalled_ns = 0
    name = "clients that share it"

    def __init__(self, legs: SharedLegs, upstream_name: str) -> None:
        self.number = legs.next_number()
        self.upstream_name = upstream_name
        self._legs = legs
        self._seen_by: WeakSet[SharedLegTap] = WeakSet()  # a recording that has stopped is not kept

    @property
    def is_shown(self) -> bool:
        """Whether anybody looks."""
        return bool(self._legs.taps)

    def begin(self, header: bytes, login: Sequence[tuple[Peer, Sequence[Any]]]) -> None:
        """Show the protocol header, and the frames of the login with their senders."""
        self._introduce(header)
        for sender, frames in login:
            self.show(sender, frames)

    def show(self, sender: Peer, frames: Sequence[Any]) -> None:
        """Show whole frames."""
        if not self._legs.taps or not frames:
            return
        self._introduce()
        for tap in list(self._legs.taps):
            self._guarded(tap, lambda tap: tap.saw_frames(self, sender, frames, AT_UPSTREAM))

    def end(self, reason: str) -> None:
        """Show the end to those who have seen the connection."""
        for tap in list(self._seen_by):
            self._guarded(tap, lambda tap: tap.saw_end(self, reason))
        self._seen_by.clear()

    def _introduce(self, header: bytes = b"") -> None:
        """Show the connection to those who have not seen it."""
        new = [tap for tap in self._legs.taps if tap not in self._seen_by]
        for tap in new:
            self._guarded(tap, lambda tap: tap.saw_shared(self, header))
        if new:
            self._seen_by.update(new)

    def _guarded(self, tap: SharedLegTap, show: Callable[[SharedLegTap], None]) -> None:
        failed = self._legs.taps.get(tap)
        if failed is None:
            return
        try:
            show(tap)
        except Exception as error:  # noqa: BLE001 - taps fail open
            self._legs.remove(tap)
            failed(error)
