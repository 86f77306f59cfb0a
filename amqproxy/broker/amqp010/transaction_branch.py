"""A branch of a distributed transaction: its work, the sessions that do it, and what state it is in. Section 10.4."""

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
"""Seconds for which a branch that cannot be committed any more waits for its owner to find out."""


class BranchState(Enum):
    """What may become of a branch."""

    ACTIVE = auto()
    PREPARING = auto()
    """What it does is on its way to the disk."""
    PREPARED = auto()
    ROLLBACK_ONLY = auto()
    TIMED_OUT = auto()
    """It was rolled back since its time was over, and waits for its owner to find out."""


class TransactionBranch:
    """One branch, named `xid`, which counts for its `user`'s quota; one that a restart has found counts for none.

    `sessions` are those associated with it, and whether each has suspended that.
    `timeout` is in seconds, 0 for none: it runs from dtx.start, or dtx.set-timeout, until the branch is prepared, for
    what its owner has ended, too. One that is prepared has no time any more: section 10.4 leaves it to its owner alone,
    and lists it in dtx.recover. One whose time is over is rolled back, and forgotten `REMEMBERED` seconds later.
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
        """Does it wait for its outcome, whatever happens?"""
        return self.state is BranchState.PREPARED

    @property
    def is_associated(self) -> bool:
        """Is there a session whose work is part of it just now?"""
        return not all(self.sessions.values())

    @property
    def status(self) -> XaStatus:
        """What a command that goes on with it is answered."""
        return _STATUS.get(self.state, XaStatus.XA_OK)

    def set_timeout(self, timeout: int, now: float) -> None:
        """Have it rolled back after so many seconds from now."""
        self.timeout = timeout
        self.vhost.timed.set(self, now + timeout if timeout else math.inf)

    def fail(self, now: float) -> None:
        """Let it be rolled back, whatever its owner wants."""
        if self.state is BranchState.ACTIVE:
            self.state = BranchState.ROLLBACK_ONLY
            if not self.timeout:
                self.vhost.timed.set(self, now + REMEMBERED)

    def leave(self, session: object, now: float) -> bool:
        """A session ends: work that it has begun, and not ended, is not to be committed.

        True where its work is to be given back now: else what was accepted would wait for an owner that may be gone,
        too. Its owner still finds out.
        """
        if self.sessions.pop(session, None) is None:
            return False
        self.fail(now)
        return self.status != XaStatus.XA_OK and not self.sessions

    def tick(self, now: float) -> None:
        """Its time is over: that to be prepared, or that to be asked about."""
        if self.state in (BranchState.PREPARING, BranchState.PREPARED):
            return
        if self.state is BranchState.TIMED_OUT and not self.sessions:
            self.forget()
        else:
            self.state = BranchState.TIMED_OUT
            self.vhost.timed.set(self, now + REMEMBERED)
        self.vhost.work.do(self.unit.giving_back(now), now)

    def forget(self) -> None:
        """It is complete."""
        if self.vhost.branches.pop(self.xid.encode(), None) is not None and self._user is not None:
            self.vhost.quotas.branches.give_back(self._user)
        self.vhost.timed.drop(self)

    def discard(self) -> None:
        """Its virtual host is deleted, with all queues: nothing of it is to be found again."""
        self.forget()
        self.unit.discard_log()

    def preparing(self, ticket: DurabilityTicket, now: float) -> Generator[None, float, float]:
        """Put it on the disk, in steps; `prepared` or `not_prepared` comes after, once it is there or is not."""
        self.state = BranchState.PREPARING
        self.vhost.timed.drop(self)
        return (yield from self.unit.keeping(self.xid, ticket, now, is_decided=False))

    def prepared(self) -> None:
        """It is on the disk, and there again after a restart."""
        self.vhost.timed.drop(self)
        self.state = BranchState.PREPARED
        self.timeout = 0

    def not_prepared(self, now: float) -> None:
        """It cannot be on the disk, and is what it was before."""
        self.unit.discard_log()
        self.state = BranchState.ACTIVE
        self.set_timeout(self.timeout, now)

    def committing(self, ticket: DurabilityTicket, now: float) -> Generator[None, float, float]:
        """Let all of it happen, in steps."""
        self.forget()
        return (yield from self.unit.committing(ticket, now))

    def rolling_back(self, now: float) -> Generator[None, float, float]:
        """Let nothing of it happen, in steps."""
        self.forget()
        return (yield from self.unit.giving_back(now))


_STATUS = {BranchState.ROLLBACK_ONLY: XaStatus.XA_RBROLLBACK, BranchState.TIMED_OUT: XaStatus.XA_RBTIMEOUT}
