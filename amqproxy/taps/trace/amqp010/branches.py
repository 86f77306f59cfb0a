"""The branches of distributed transactions on one connection, and what its sessions have done in them. Section 10.4."""

from __future__ import annotations

from amqproxy.amqp010.results import Xid
from amqproxy.taps.trace.amqp010.open_transfers import OpenTransfers
from amqproxy.taps.trace.amqp010.transactions import Accepted
from amqproxy.taps.trace.budget import Budget

MAX_WORKS = 1024
"""Sessions that have worked on branches of one connection that have not ended; what is beyond is not followed."""

BranchKey = tuple[int, bytes, bytes]
"""A branch's name."""


def key_of(xid: Xid | None) -> BranchKey:
    """The name in a command."""
    if xid is None:
        return (0, b"", b"")
    return (xid.format or 0, xid.global_id or b"", xid.branch_id or b"")


class BranchWork:
    """What one session has published and accepted in one branch; `owner` is the session's trace."""

    __slots__ = ("_spans", "accepted", "owner", "publishes")

    def __init__(self, owner: object, spans: Budget) -> None:
        self._spans = spans
        self.owner = owner
        self.publishes = OpenTransfers(spans)
        self.accepted: list[Accepted] = []

    def add(self, accepted: Accepted) -> None:
        """The client accepts in the branch."""
        self.accepted.append(accepted)
        self._spans.left -= len(accepted.runs)

    def take_accepted(self) -> list[Accepted]:
        """What was accepted, which has an end now."""
        found, self.accepted = self.accepted, []
        for each in found:
            self._spans.left += len(each.runs)
        return found


class Branches:
    """The work on each branch that has not ended, in the order in which it began."""

    __slots__ = ("_count", "_works")

    def __init__(self) -> None:
        self._works: dict[BranchKey, list[BranchWork]] = {}
        self._count = 0

    def begin(self, key: BranchKey, owner: object, spans: Budget) -> BranchWork | None:
        """A session works on a branch from now on, or again; None where there is no room."""
        works = self._works.get(key, [])
        for each in works:
            if each.owner is owner:
                return each
        if self._count >= MAX_WORKS:
            return None
        self._count += 1
        work = BranchWork(owner, spans)
        self._works[key] = [*works, work]
        return work

    def of(self, owner: object) -> list[BranchWork]:
        """What one session has done."""
        return [each for works in self._works.values() for each in works if each.owner is owner]

    def end(self, key: BranchKey) -> list[BranchWork]:
        """A branch has ended: what was done in it."""
        works = self._works.pop(key, [])
        self._count -= len(works)
        return works

    def forget(self, owner: object) -> list[BranchWork]:
        """A session is over: what it has done."""
        found = self.of(owner)
        for key, works in [*self._works.items()]:
            kept = [each for each in works if each.owner is not owner]
            self._count -= len(works) - len(kept)
            if kept:
                self._works[key] = kept
            else:
                del self._works[key]
        return found
