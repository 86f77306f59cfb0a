"""Transactions of one session: tx (section 10.3) and the demarcation of dtx (section 10.4).

A dtx branch can be used by other sessions and connections, so that nothing is checked here that would require knowing
them.
"""

from __future__ import annotations

from enum import StrEnum

from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.errors import IllegalState, NotAllowed


class TransactionMode(StrEnum):
    """Transaction mode of a session, which lasts to its end."""

    NONE = "none"
    TX = "tx"
    DTX = "dtx"


class Transaction:
    """Selected mode of a session, and the dtx `branch` that it is associated with, or `None`."""

    __slots__ = ("branch", "mode")

    def __init__(self) -> None:
        self.mode = TransactionMode.NONE
        self.branch: object = None

    def select_tx(self, *, has_unaccepted: bool) -> None:
        """Process a tx.select; `has_unaccepted` if any subscription's messages need no accept."""
        if self.mode is TransactionMode.TX:
            raise IllegalState("tx.select on a session that has it", section="10.3 tx.select, exactly-once")
        if self.mode is TransactionMode.DTX:
            raise IllegalState("tx.select on a session with dtx.select", section="10.3 tx.select, no-dtx")
        self.mode = TransactionMode.TX
        if has_unaccepted:
            raise NotAllowed(
                "tx.select beside a subscription with accept-mode none", section="10.3 tx.select, explicit-accepts"
            )

    def check_tx(self, name: str) -> None:
        """Check a tx.commit or tx.rollback."""
        if self.mode is not TransactionMode.TX:
            raise IllegalState(f"{name} without tx.select", section=f"10.3 {name}, select-required")

    def select_dtx(self) -> None:
        """Process a dtx.select, which may be repeated."""
        if self.mode is TransactionMode.TX:
            raise IllegalState("dtx.select on a session with tx.select", section="10.3 tx.select, no-dtx")
        self.mode = TransactionMode.DTX

    def start(self, xid: object, *, join: bool, resume: bool) -> None:
        """Process a dtx.start."""
        self._check_selected("dtx.start")
        if join and resume:
            raise NotAllowed("dtx.start with join and resume", section="10.4 dtx.start, join-and-resume")
        if self.branch is not None:
            raise IllegalState(
                "dtx.start on a session that is associated with a branch", section="10.4 dtx.start, illegal-state"
            )
        self.branch = xid

    def started(self, xid: object, status: int) -> None:
        """Process the result of a dtx.start: unless it is xa-ok, the session is not associated with the branch."""
        if status != XaStatus.XA_OK and self.branch == xid:
            self.branch = None

    def end(self, xid: object, *, fail: bool, suspend: bool) -> None:
        """Process a dtx.end; a suspended branch is not associated with the session either."""
        self._check_selected("dtx.end")
        branch, self.branch = self.branch, None
        if fail and suspend:
            raise NotAllowed("dtx.end with fail and suspend", section="10.4 dtx.end, suspend-and-fail")
        if branch != xid:
            raise IllegalState(
                "dtx.end for a branch that the session is not associated with", section="10.4 dtx.end, not-associated"
            )

    def check_outcome(self, name: str, xid: object) -> None:
        """Check a dtx.prepare, commit, rollback or forget: the branch must have ended."""
        if self.branch is not None and self.branch == xid:
            raise IllegalState(
                f"{name} for the branch that the session is associated with", section=f"10.4 {name}, not-disassociated"
            )

    def _check_selected(self, name: str) -> None:
        if self.mode is not TransactionMode.DTX:
            raise IllegalState(f"{name} without dtx.select", section="10.4 dtx.select")
