"""Fan-out of the traffic of running sessions to any number of taps, which come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

from amqproxy.peer import CLIENT, Peer
from amqproxy.process.supervision import contained
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import Tap, TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot


class Hub:
    """A tap that forwards to other taps: the proxy's `own`, if it has one, and those that are added.

    `apply` is called with the tap that sessions have to use: this hub while there are taps besides `own`, else `own`;
    so a proxy that is not observed hands frames to no tap. A tap that fails is removed without affecting the others;
    `own` is only cut off from the session in which it has failed, as it would be without this hub.
    """

    def __init__(self, own: Tap | None, apply: Callable[[Tap | None], None]) -> None:
        self._own = own
        self._apply = apply
        self._added: list[Tap] = []
        self._failed: dict[int, Callable[[Exception], None]] = {}
        self._lost: WeakSet[TappedSession] = WeakSet()
        self._joins = 0

    def add(self, tap: Tap, failed: Callable[[Exception], None] | None = None) -> None:
        """Add a tap. If the tap raises, it is removed, and `failed` is called with the exception."""
        if failed is not None:
            self._failed[id(tap)] = failed
        self._joins += 1
        self._change([*self._added, tap])

    def remove(self, tap: Tap) -> None:
        """Remove a tap; no effect if it is not there."""
        self._failed.pop(id(tap), None)
        if tap in self._added:
            self._joins += tap.joins  # those that stay have joined no session
            self._change([each for each in self._added if each is not tap])

    def _lose(self, tap: Tap, failure: Exception) -> None:
        """Remove a tap that has failed, and call its `failed`."""
        failed = self._failed.get(id(tap))
        self.remove(tap)
        if failed is not None:
            with contained("tap not ended"):
                failed(failure)

    def _change(self, added: list[Tap]) -> None:
        was_observed, self._added = bool(self._added), added
        if was_observed != bool(added):
            self._apply(self if added else self._own)

    @property
    def may_miss_frames(self) -> bool:
        """Whether all taps may miss frames; never with the proxy's own tap."""
        return self._own is None and all(tap.may_miss_frames for tap in self._added)

    @property
    def joins(self) -> int:
        """Number of times that any of the taps has joined running sessions."""
        joins = self._joins if self._own is None else self._joins + self._own.joins
        for tap in self._added:  # asked before each chunk: a generator would cost as much as all the rest
            joins += tap.joins
        return joins

    # --- events of sessions

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if sender is CLIENT:
            self._show(session, lambda tap: tap.saw_protocol_header(session, data))
        else:
            self._show(session, lambda tap: tap.saw_protocol_header(session, data, sender))

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if self._own is not None:
            self._show_own(session, lambda tap: tap.saw_frames(session, sender, frames, note))
        for tap in self._added:
            try:
                tap.saw_frames(session, sender, frames, note)
            except Exception as failure:  # a context for each chunk would cost more than what it contains
                with self._containing(tap):
                    raise failure

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        self._show(session, lambda tap: tap.saw_bytes(session, sender, protocol, data))

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._show(session, lambda tap: tap.saw_gap(session, frames))

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self._show(session, lambda tap: tap.saw_snapshot(session, snapshot))

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        self._show(session, lambda tap: tap.saw_violation(session, sender, error))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._show(session, lambda tap: tap.saw_end(session, reason))

    def _show(self, session: TappedSession, show: Callable[[Tap], None]) -> None:
        self._show_own(session, show)
        for tap in self._added:
            try:
                show(tap)
            except Exception as failure:  # a context for each chunk would cost more than what it contains
                with self._containing(tap):
                    raise failure

    def _show_own(self, session: TappedSession, show: Callable[[Tap], None]) -> None:
        if self._own is not None and session not in self._lost:
            with contained("tap failed", then=lambda _: self._lost.add(session), connection=session.name):
                show(self._own)

    def _containing(self, tap: Tap) -> AbstractContextManager[None]:
        return contained("tap failed", then=lambda failure: self._lose(tap, failure))
