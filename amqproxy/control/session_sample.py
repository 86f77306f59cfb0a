"""Sample of the sessions for a subscriber that is too slow for all traffic: some of them whole, not pieces of all."""

from __future__ import annotations

from heapq import nsmallest

from amqproxy.control.tap_ring import Entry
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

TURN_NS = 5_000_000_000
"""Nanoseconds for which the same sessions are shown, before others have their turn."""

NARROWED_NS = 1_000_000_000
"""Minimum nanoseconds between two times that fewer sessions are shown."""

AGAIN_NS = 5_000_000_000
"""Nanoseconds after a loss within which another shows that the subscriber is too slow, rather than once interrupted."""

WIDENED_NS = 10_000_000_000
"""Nanoseconds without a loss after which more sessions are shown."""

NARROWING, WIDENING = 0.6, 1.25
"""Factors of the number of sessions that are shown."""

FEW = 500
"""Entries left out in a turn below which all sessions are shown again: what was too much has ended."""

PATIENCE_NS = 2_500_000_000
"""Nanoseconds for which a session is withheld after a loss: then it has no snapshot to be waited for."""


class SessionSample:
    """Sessions whose entries a subscriber is shown: all, or `most` of those that are active, each for a turn.

    A session of which entries were missed is withheld until its next snapshot, so that what is shown of it is
    understood: nothing is claimed from half a history.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        """Number of sessions shown at the same time; `None` for all."""
        self.awaits_state = False
        """Whether sessions are withheld that only wait for a snapshot."""
        self._torn: dict[TappedSession, int] = {}
        """Sessions of which entries were missed, and since when they wait for a snapshot; 0 while they do not wait."""
        self._active: set[TappedSession] = set()
        """Sessions with traffic in this turn."""
        self._shown: set[TappedSession] = set()
        self._leaving: set[TappedSession] = set()
        """Sessions of the last turn, each of which is shown until one of this turn is known."""
        self._turns: dict[TappedSession, int] = {}
        """Number of the turn in which each session was last shown."""
        self._turn = 0
        self._turn_ends_ns = 0
        self._left_out = 0
        """Entries of other sessions in this turn."""
        self._changed_ns = self._lost_ns = 0

    @property
    def active(self) -> int:
        """Number of sessions with traffic of late."""
        return len(self._active)

    def miss(self, entry: Entry) -> None:
        """Note that an entry is not shown."""
        if isinstance(entry.event, str):
            self._forget(entry.session)
        else:
            self._torn[entry.session] = 0

    def narrow(self, now_ns: int) -> None:
        """Show fewer sessions, if the subscriber was too slow again; not below one."""
        since, self._lost_ns = now_ns - self._lost_ns, now_ns
        if since > AGAIN_NS or now_ns - self._changed_ns < NARROWED_NS or len(self._active) < 2:
            return
        self._changed_ns = now_ns
        shown = len(self._active) if self.most is None else min(self.most, len(self._active))
        self.most = max(1, int(shown * NARROWING))
        if len(self._shown) > self.most:
            self._shown = set(list(self._shown)[: self.most])
        elif not self._shown:
            self._choose()
        self._leaving.clear()

    def shows(self, entry: Entry) -> bool:
        """Whether to show an entry; the beginning and the end of a session always are."""
        session, event, now_ns = entry.session, entry.event, entry.ts_ns
        if isinstance(event, str):
            self._forget(session)
            return True
        if now_ns >= self._turn_ends_ns:
            self._next_turn(now_ns)
        self._active.add(session)
        if self.most is not None and session not in self._shown and session not in self._leaving:
            if len(self._shown) >= self.most:
                self._torn[session] = 0
                self._left_out += 1
                return isinstance(event, bytes)
            self._show(session)
        if not self._torn or (since := self._torn.get(session)) is None:
            return True
        if isinstance(event, ConnectionSnapshot | bytes) or (since and now_ns - since > PATIENCE_NS):
            del self._torn[session]
            if self._leaving and session in self._shown:
                self._leaving.pop()
            return True
        self._torn[session] = since or now_ns
        self.awaits_state = True
        return False

    def _next_turn(self, now_ns: int) -> None:
        self._turn_ends_ns = now_ns + TURN_NS
        if self.most is None:
            self._active.clear()
            return
        left_out, self._left_out = self._left_out, 0
        if now_ns - self._changed_ns > WIDENED_NS:
            self._changed_ns = now_ns
            self.most = int(self.most * WIDENING) + 1
        is_over = left_out < FEW and now_ns - self._lost_ns > TURN_NS
        if is_over or self.most > WIDENING * len(self._active):
            self.most = None
            self._shown.clear()
            self._leaving.clear()
            self._turns.clear()
        else:
            self._choose()
        self._active.clear()

    def _choose(self) -> None:
        """Choose the sessions that are shown next: those that have waited longest."""
        assert self.most is not None
        self._turn += 1
        before, self._shown = self._shown, set()
        for session in nsmallest(self.most, self._active, key=lambda each: self._turns.get(each, 0)):
            self._show(session)
        waiting = sum(each in self._torn for each in self._shown)
        known = [each for each in (before | self._leaving) - self._shown if each not in self._torn]
        self._leaving = set(known[:waiting])

    def _show(self, session: TappedSession) -> None:
        self._shown.add(session)
        self._turns[session] = self._turn

    def _forget(self, session: TappedSession) -> None:
        self._torn.pop(session, None)
        self._turns.pop(session, None)
        self._active.discard(session)
        self._shown.discard(session)
        self._leaving.discard(session)
