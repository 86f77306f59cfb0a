"""Branches of distributed transactions on one connection, and its sessions' work in them. Section 10.4."""

from __future__ import annotations

from amqproxy.amqp010.results import Xid
from amqproxy.taps.trace.amqp010.open_transfers import OpenTransfers
from amqproxy.taps.trace.amqp010.transactions import Accepted
from amqproxy.taps.trace.budget import Budget

MAX_WORKS = 1024
"""Limit on the pairs of a session and an unfinished branch on one connection; those beyond it are not followed."""

BranchKey = tuple[int, bytes, bytes]
"""Name of a branch: format, global id and branch id of its xid."""


def key_of(xid: Xid | None) -> BranchKey:
    """Return the branch name that a command's xid stands for."""
    if xid is None:
        return (0, b"", b"")
    return (xid.format or 0, xid.global_id or b"", xid.branch_id or b"")


class BranchWork:
    """Publishes and accepts of one session in one branch; `owner` is the session's trace."""

    __slots__ = ("_spans", "accepted", "owner", "publishes")

    def __init__(self, owner: object, spans: Budget) -> None:
        self._spans = spans
        self.owner = owner
        self.publishes = OpenTransfers(spans)
        self.accepted: list[Accepted] = []

    def add(self, accepted: Accepted) -> None:
        """Add the client's accept to the branch."""
        self.accepted.append(accepted)
        self._spans.left -= len(accepted.runs)

    def take_accepted(self) -> list[Accepted]:
        """Remove and return the accepts, since the branch has ended."""
        found, self.accepted = self.accepted, []
        for each in found:
            self._spans.left += len(each.runs)
        return found


class Branches:
    """Work on each unfinished branch, in the order in which it began."""

    __slots__ = ("_count", "_works")

    def __init__(self) -> None:
        self._works: dict[BranchKey, list[BranchWork]] = {}
        self._count = 0

    def begin(self, key: BranchKey, owner: object, spans: Budget) -> BranchWork | None:
        """Return a session's work on a branch, new or resumed; `None` if there are already `MAX_WORKS`."""
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
        """Return the work of one session on all branches."""
        return [each for works in self._works.values() for each in works if each.owner is owner]

    def end(self, key: BranchKey) -> list[BranchWork]:
        """Remove and return all work on a branch, which has ended."""
        works = self._works.pop(key, [])
        self._count -= len(works)
        return works

    def forget(self, owner: object) -> list[BranchWork]:
        """Remove and return all work of a session, which has ended."""
        found = self.of(owner)
        for key, works in [*self._works.items()]:
            kept = [each for each in works if each.owner is not owner]
            self._count -= len(works) - len(kept)
            if kept:
                self._works[key] = kept
            else:
                del self._works[key]
        return found
