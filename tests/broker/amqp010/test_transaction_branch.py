"""A branch of a distributed transaction by itself."""

from __future__ import annotations

from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.results import Xid
from amqproxy.broker.amqp010.transaction_branch import REMEMBERED, BranchState, TransactionBranch
from amqproxy.broker.vhost import VirtualHost

XID = Xid(1, b"g", b"b")


def branch_of(vhost: VirtualHost) -> TransactionBranch:
    branch = vhost.branches[XID.encode()] = TransactionBranch(vhost, XID)
    return branch


def test_its_time() -> None:
    vhost = VirtualHost("v")
    branch = branch_of(vhost)
    branch.set_timeout(5, 100.0)
    assert vhost.next_deadline == 105.0
    branch.set_timeout(0, 100.0)
    assert vhost.next_deadline > 1e9
    branch.set_timeout(5, 101.0)
    vhost.tick(107.0)
    assert branch.state is BranchState.TIMED_OUT
    assert branch.status == XaStatus.XA_RBTIMEOUT


def test_one_that_failed_is_forgotten_in_the_end() -> None:
    vhost = VirtualHost("v")
    branch = branch_of(vhost)
    branch.fail(100.0)
    assert branch.status == XaStatus.XA_RBROLLBACK
    vhost.tick(100.0 + REMEMBERED)
    assert branch.status == XaStatus.XA_RBTIMEOUT
    branch.sessions[session := object()] = False
    vhost.tick(100.0 + 2 * REMEMBERED)
    assert vhost.branches != {}, "a session is associated with it"
    assert branch.leave(session, 100.0)
    vhost.tick(100.0 + 3 * REMEMBERED)
    assert vhost.branches == {}
    assert len(vhost.timed) == 0


def test_what_is_prepared_has_no_time_any_more() -> None:
    vhost = VirtualHost("v")
    branch = branch_of(vhost)
    branch.set_timeout(5, 100.0)
    assert not branch.is_prepared
    branch.prepared()
    assert len(vhost.timed) == 0
    branch.tick(107.0)
    assert branch.is_prepared
    assert branch.timeout == 0


def test_what_cannot_be_prepared_has_its_time_again() -> None:
    vhost = VirtualHost("v")
    branch = branch_of(vhost)
    branch.set_timeout(5, 100.0)
    branch.state = BranchState.PREPARING
    branch.not_prepared(102.0)
    assert branch.state is BranchState.ACTIVE
    assert vhost.next_deadline == 107.0


def test_sessions_come_and_go() -> None:
    branch = branch_of(VirtualHost("v"))
    first, second = object(), object()
    branch.sessions = {first: True, second: True}
    assert not branch.is_associated
    branch.sessions[second] = False
    assert branch.is_associated
    assert not branch.leave(object(), 100.0)
    assert branch.status == XaStatus.XA_OK
    assert not branch.leave(first, 100.0)
    assert branch.status == XaStatus.XA_RBROLLBACK
    assert list(branch.sessions) == [second]
    assert branch.leave(second, 100.0)
    assert not branch.leave(second, 100.0)


def test_what_is_prepared_stays_when_a_session_leaves_that_had_suspended_it() -> None:
    branch = branch_of(VirtualHost("v"))
    session = object()
    branch.sessions = {session: True}
    branch.prepared()
    assert not branch.leave(session, 100.0)
    assert branch.state is BranchState.PREPARED


def test_it_goes_with_its_virtual_host() -> None:
    vhost = VirtualHost("v")
    branch = branch_of(vhost)
    branch.set_timeout(5, 100.0)
    for _ in vhost.clearing():
        pass
    assert vhost.branches == {}
    assert len(vhost.timed) == 0
