"""A branch of a distributed transaction: its work, its sessions and its state. Section 10.4."""

from __future__ import annotations

import math
from collections.abc import Generator
from enum import Enum, auto

from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.results import Xid
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.vhost import VirtualHost

REMEMBERED = 3600.0
"""Seconds for which a branch that can no longer be committed waits for its owner to find out."""


class BranchState(Enum):
    """State of a branch."""

    ACTIVE = auto()
    PREPARING = auto()
    """The branch's work is on its way to the disk."""
    PREPARED = auto()
    ROLLBACK_ONLY = auto()
    TIMED_OUT = auto()
    """The branch was rolled back as its time was over, and waits for its owner to find out."""


class TransactionBranch:
    """One branch, named `xid`, which counts for its `user`'s quota; one found after a restart counts for none.

    `sessions` are those associated with it, and whether each has suspended that. `timeout` is in seconds, 0 for none:
    it runs from dtx.start, or dtx.set-timeout, until the branch is prepared, even if its owner has ended the
    association. A prepared branch has no timeout: section 10.4 leaves it to its owner alone, and lists it in
    dtx.recover. A branch whose time is over is rolled back, and forgotten `REMEMBERED` seconds later.
    """

    def __init__(self, vhost: VirtualHost, xid: Xid, user: str | None = None) -> None:
        self.vhost = vhost
        self._user = user
        self.xid = xid
        self.unit = WorkUnit(vhost)
        self.state = BranchState.ACTIVE
        self.timeout = 0
        self.sessions: dict[object, bool] = {}

    @property
    def is_prepared(self) -> bool:
        """Whether the branch is prepared, and so waits for its outcome, whatever happens."""
        return self.state is BranchState.PREPARED

    @property
    def is_associated(self) -> bool:
        """Whether a session's current work is part of the branch."""
        return not all(self.sessions.values())

    @property
    def status(self) -> XaStatus:
        """Answer to a command that continues the branch."""
        return _STATUS.get(self.state, XaStatus.XA_OK)

    def set_timeout(self, timeout: int, now: float) -> None:
        """Schedule the rollback of the branch `timeout` seconds from now; 0 is never."""
        self.timeout = timeout
        self.vhost.timed.set(self, now + timeout if timeout else math.inf)

    def fail(self, now: float) -> None:
        """Mark an active branch as one that can only be rolled back."""
        if self.state is BranchState.ACTIVE:
            self.state = BranchState.ROLLBACK_ONLY
            if not self.timeout:
                self.vhost.timed.set(self, now + REMEMBERED)

    def leave(self, session: object, now: float) -> bool:
        """Detach a session that ends: its work, begun and not ended, must not be committed.

        Return True if the branch's work has to be given back at once: otherwise the accepted messages would wait for an
        owner that may be gone, too. The owner still finds out.
        """
        if self.sessions.pop(session, None) is None:
            return False
        self.fail(now)
        return self.status != XaStatus.XA_OK and not self.sessions

    def tick(self, now: float) -> None:
        """Roll the branch back once its time to be prepared is over, and forget it `REMEMBERED` seconds later."""
        if self.state in (BranchState.PREPARING, BranchState.PREPARED):
            return
        if self.state is BranchState.TIMED_OUT and not self.sessions:
            self.forget()
        else:
            self.state = BranchState.TIMED_OUT
            self.vhost.timed.set(self, now + REMEMBERED)
        self.vhost.work.do(self.unit.giving_back(now), now)

    def forget(self) -> None:
        """Remove the branch, which is complete, from its virtual host."""
        if self.vhost.branches.pop(self.xid.encode(), None) is not None and self._user is not None:
            self.vhost.quotas.branches.give_back(self._user)
        self.vhost.timed.drop(self)

    def discard(self) -> None:
        """Remove the branch and its log: its virtual host is deleted, with all queues."""
        self.forget()
        self.unit.discard_log()

    def preparing(self, ticket: DurabilityTicket, now: float) -> Generator[None, float, float]:
        """Write the branch to the disk in steps; then `prepared` or `not_prepared` has to be called."""
        self.state = BranchState.PREPARING
        self.vhost.timed.drop(self)
        return (yield from self.unit.keeping(self.xid, ticket, now, is_decided=False))

    def prepared(self) -> None:
        """Note that the branch is on the disk, where a restart finds it."""
        self.vhost.timed.drop(self)
        self.state = BranchState.PREPARED
        self.timeout = 0

    def not_prepared(self, now: float) -> None:
        """Make the branch active again: it cannot be written to the disk."""
        self.unit.discard_log()
        self.state = BranchState.ACTIVE
        self.set_timeout(self.timeout, now)

    def committing(self, ticket: DurabilityTicket, now: float) -> Generator[None, float, float]:
        """Commit the branch's work in steps."""
        self.forget()
        return (yield from self.unit.committing(ticket, now))

    def rolling_back(self, now: float) -> Generator[None, float, float]:
        """Roll the branch's work back in steps."""
        self.forget()
        return (yield from self.unit.giving_back(now))


_STATUS = {BranchState.ROLLBACK_ONLY: XaStatus.XA_RBROLLBACK, BranchState.TIMED_OUT: XaStatus.XA_RBTIMEOUT}
