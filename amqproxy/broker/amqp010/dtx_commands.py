"""Handlers of the dtx commands. Section 10.4, with Broker-J's error codes where those differ."""

from __future__ import annotations

from functools import partial

from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxForget,
    DtxGetTimeout,
    DtxPrepare,
    DtxRecover,
    DtxRollback,
    DtxSelect,
    DtxSetTimeout,
    DtxStart,
)
from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.errors import (
    CommandInvalid,
    IllegalState,
    InvalidArgument,
    NotAllowed,
    NotFound,
    ResourceLimitExceeded,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.results import GetTimeoutResult, RecoverResult, XaResult, Xid
from amqproxy.amqp010.wire import Array
from amqproxy.broker.amqp010.command_session import CommandSession, Handler
from amqproxy.broker.amqp010.transaction_branch import BranchState, TransactionBranch
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.work import Job

SHOWN = 10_000
"""Maximum number of branches that a dtx.recover lists."""


def _select(session: CommandSession, command: DtxSelect, position: int, now: float) -> bool:
    if session.transaction is not None and session.branch is None:
        raise IllegalState("dtx.select on a session with tx.select")
    session.is_distributed = True
    return False


def _start(session: CommandSession, command: DtxStart, position: int, now: float) -> bool:
    _check_selected(session)
    if command.join and command.resume:
        raise CommandInvalid("dtx.start with join and resume")
    xid = _xid(command.xid)
    if session.branch is not None:
        raise IllegalState("dtx.start on a session that is associated with a branch")
    vhost, key = session.vhost, xid.encode()
    branch = _branch_of(session, xid)
    if command.join or command.resume:
        if branch is None:
            raise NotAllowed("dtx.start for a branch that is not known")
        if command.resume and not branch.sessions.get(session):
            raise IllegalState("dtx.start for a branch that the session has not suspended")
        if branch.state in (BranchState.PREPARING, BranchState.PREPARED):
            raise IllegalState("dtx.start for a branch that is prepared")
    elif branch is not None:
        raise NotAllowed("dtx.start for a branch that is known")
    else:
        user, quota = session.user.name, vhost.quotas.branches
        if not quota.take(user):
            raise ResourceLimitExceeded(f"the user '{user}' has {quota.most} branches, as many as it may")
        branch = vhost.branches[key] = TransactionBranch(vhost, xid, user)
        branch.set_timeout(session.broker.dtx_timeout, now)
    status = branch.status
    if status == XaStatus.XA_OK:
        branch.sessions[session] = False
        session.branches[branch] = None
        session.branch, session.transaction = branch, branch.unit
    session.result(position, XaResult(status))
    return False


def _end(session: CommandSession, command: DtxEnd, position: int, now: float) -> bool:
    _check_selected(session)
    if command.fail and command.suspend:
        raise CommandInvalid("dtx.end with fail and suspend")
    branch = _branch_of(session, _xid(command.xid))
    if branch is None or branch.sessions.get(session) is None:
        raise IllegalState("dtx.end for a branch that the session is not associated with")
    if branch is session.branch:
        session.branch = session.transaction = None
    if command.suspend:
        branch.sessions[session] = True
    else:
        del branch.sessions[session]
        session.branches.pop(branch, None)
    if command.fail:
        branch.fail(now)
    session.result(position, XaResult(branch.status))
    return False


def _prepare(session: CommandSession, command: DtxPrepare, position: int, now: float) -> bool:
    branch = _ended(session, command.xid)
    if branch.state is BranchState.ACTIVE and _fits(branch, now):
        session.do(_preparing(session, branch, position, now), now)
        return True
    session.result(position, XaResult(branch.status))
    return False


def _fits(branch: TransactionBranch, now: float) -> bool:
    """Return whether the branch's queues take what it publishes; if not, it can only be rolled back."""
    try:
        branch.unit.check()
    except ResourceLimitExceeded:
        branch.fail(now)
        return False
    return True


def _preparing(session: CommandSession, branch: TransactionBranch, position: int, now: float) -> Job:
    storage = session.vhost.storage
    if storage is None:
        branch.prepared()
        _answer(session, position, XaStatus.XA_OK)
        return
    ticket = DurabilityTicket()
    now = yield from branch.preparing(ticket, now)
    storage.journal.when_committed(
        partial(_prepared, session, branch, ticket, position, now),
        session.fail_soon,
        partial(_not_prepared, session, branch, now),
    )


def _prepared(
    session: CommandSession, branch: TransactionBranch, ticket: DurabilityTicket, position: int, now: float
) -> None:
    if ticket.is_refused:
        _not_prepared(session, branch, now, "some of it can never be written")
        return
    branch.prepared()
    if not session.is_over:
        _answer(session, position, XaStatus.XA_OK)
        session.end_turn()


def _not_prepared(session: CommandSession, branch: TransactionBranch, now: float, reason: str) -> None:
    """Return the branch to its former state: its owner may prepare it again, or roll it back."""
    branch.not_prepared(now)
    session.fail_soon(ResourceLimitExceeded(f"the branch cannot be prepared: {reason}"))


def _commit(session: CommandSession, command: DtxCommit, position: int, now: float) -> bool:
    branch = _ended(session, command.xid)
    if branch.status != XaStatus.XA_OK:
        return _roll_back(session, branch, position, now)
    if command.one_phase and branch.state is BranchState.PREPARED:
        raise IllegalState("dtx.commit in one phase of a branch that is prepared")
    if not command.one_phase and branch.state is not BranchState.PREPARED:
        raise IllegalState("dtx.commit in two phases of a branch that is not prepared")
    if command.one_phase and not _fits(branch, now):
        return _roll_back(session, branch, position, now)
    session.do(_committing(session, branch, position, now), now)
    return True


def _committing(session: CommandSession, branch: TransactionBranch, position: int, now: float) -> Job:
    ticket = DurabilityTicket()
    yield from branch.committing(ticket, now)
    session.when_kept(ticket, partial(_answer, session, position, XaStatus.XA_OK))


def _answer(session: CommandSession, position: int, status: XaStatus) -> None:
    session.result(position, XaResult(status))
    session.complete(position)


def _rollback(session: CommandSession, command: DtxRollback, position: int, now: float) -> bool:
    branch = _ended(session, command.xid)
    status = XaStatus.XA_RBTIMEOUT if branch.state is BranchState.TIMED_OUT else XaStatus.XA_OK
    return _roll_back(session, branch, position, now, status)


def _roll_back(
    session: CommandSession, branch: TransactionBranch, position: int, now: float, status: XaStatus | None = None
) -> bool:
    """Roll a branch back, at its owner's request or because it must be; then the branch's own status is the answer."""
    session.do(_rolling_back(session, branch, position, now, branch.status if status is None else status), now)
    return True


def _rolling_back(
    session: CommandSession, branch: TransactionBranch, position: int, now: float, status: XaStatus
) -> Job:
    yield from branch.rolling_back(now)
    storage, answer = session.vhost.storage, partial(_answer, session, position, status)
    if storage is not None and storage.journal.is_defining:
        session.when_kept(DurabilityTicket(), answer)
    else:
        answer()


def _forget(session: CommandSession, command: DtxForget, position: int, now: float) -> bool:
    _ended(session, command.xid)
    raise IllegalState("dtx.forget for a branch that no heuristic has completed")


def _get_timeout(session: CommandSession, command: DtxGetTimeout, position: int, now: float) -> bool:
    session.result(position, GetTimeoutResult(_known(session, command.xid).timeout))
    return False


def _set_timeout(session: CommandSession, command: DtxSetTimeout, position: int, now: float) -> bool:
    branch = _known(session, command.xid)
    if branch.state is BranchState.ACTIVE:  # a branch that can only be rolled back keeps its timeout
        branch.set_timeout(command.timeout or session.broker.dtx_timeout, now)
    return False


def _recover(session: CommandSession, command: DtxRecover, position: int, now: float) -> bool:
    return session.finish(_recovering(session, position), position, now)


def _recovering(session: CommandSession, position: int) -> Job:
    found: list[Xid] = []
    for branch in list(session.vhost.branches.values()):
        if isinstance(branch, TransactionBranch) and branch.state is BranchState.PREPARED and len(found) < SHOWN:
            found.append(branch.xid)
        if session.vhost.work.quantum.spend(1):
            yield
    session.result(position, RecoverResult(Array("struct32", found)))


# --- look-up


def _check_selected(session: CommandSession) -> None:
    if not session.is_distributed:
        raise CommandInvalid("the session has no dtx.select")


def _xid(xid: Xid | None) -> Xid:
    """Return the xid in the form in which it is kept, whichever form it had on the wire."""
    if xid is None:
        raise InvalidArgument("the xid is missing")
    return Xid(xid.format, xid.global_id, xid.branch_id)


def _branch_of(session: CommandSession, xid: Xid) -> TransactionBranch | None:
    branch = session.vhost.branches.get(xid.encode())
    return branch if isinstance(branch, TransactionBranch) else None


def _known(session: CommandSession, xid: Xid | None) -> TransactionBranch:
    branch = _branch_of(session, _xid(xid))
    if branch is None:
        raise NotFound("the branch is not known")
    return branch


def _ended(session: CommandSession, xid: Xid | None) -> TransactionBranch:
    """Return a known branch that no session is associated with."""
    branch = _known(session, xid)
    if branch.state is BranchState.PREPARING:
        raise IllegalState("the branch is just being prepared")
    if branch.is_associated:
        raise IllegalState("a session is still associated with the branch")
    return branch


HANDLERS: dict[type[Command], Handler] = {
    DtxSelect: _select,
    DtxStart: _start,
    DtxEnd: _end,
    DtxPrepare: _prepare,
    DtxCommit: _commit,
    DtxRollback: _rollback,
    DtxForget: _forget,
    DtxGetTimeout: _get_timeout,
    DtxSetTimeout: _set_timeout,
    DtxRecover: _recover,
}
