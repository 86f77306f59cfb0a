"""Distributed transactions, as a transaction manager drives them. Section 10.4."""

from __future__ import annotations

from typing import Any

import pytest

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
    MessageAccept,
    MessageCancel,
    QueueDeclare,
    QueueQuery,
    TxSelect,
)
from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.quotas import UserQuotas
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010.transaction_branch import REMEMBERED
from amqproxy.broker.broker import DTX_TIMEOUT, Broker
from tests.broker.amqp010.client import INFINITE, Client010, Session010

XID = Xid(4, b"global", b"branch")


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    session.call(DtxSelect())
    return session


def count(session: Session010) -> int:
    return int(session.call(QueueQuery("q")).message_count)


def status(session: Session010, command: Command) -> Any:
    return session.call(command).status


def work(session: Session010) -> None:
    """Take a message and publish another, in a branch."""
    session.transfer(b"before")
    session.subscribe("q", "d", messages=1)
    assert status(session, DtxStart(XID)) == XaStatus.XA_OK
    ((position, _),) = session.messages
    session.messages = []
    session.call(MessageAccept(SequenceSet.of([position])))
    session.call(MessageCancel("d"))
    session.transfer(b"after")
    assert status(session, DtxEnd(XID)) == XaStatus.XA_OK
    assert count(session) == 0


def test_two_phases(session: Session010) -> None:
    work(session)
    assert status(session, DtxPrepare(XID)) == XaStatus.XA_OK
    assert [each.global_id for each in session.call(DtxRecover()).in_doubt] == [b"global"]
    assert status(session, DtxCommit(XID)) == XaStatus.XA_OK
    session.subscribe("q", "d")
    assert session.got() == [b"after"]
    assert len(session.call(DtxRecover()).in_doubt) == 0


def test_one_phase_from_another_session(session: Session010) -> None:
    work(session)
    other = session.client.session(2, b"other")
    assert status(other, DtxCommit(XID, True)) == XaStatus.XA_OK
    assert count(session) == 1


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_rollback_puts_back_what_was_taken(session: Session010, is_prepared: bool) -> None:
    work(session)
    if is_prepared:
        session.call(DtxPrepare(XID))
    assert status(session, DtxRollback(XID)) == XaStatus.XA_OK
    session.subscribe("q", "d")
    assert session.got() == [b"before"]


@pytest.mark.parametrize("is_one_phase", [True, False])
def test_what_its_queue_would_reject_cannot_be_committed(session: Session010, is_one_phase: bool) -> None:
    arguments = Map({"qpid.max_count": 2, "qpid.policy_type": "reject"})
    session.call(QueueDeclare("few", arguments=arguments))
    session.call(DtxStart(XID))
    for key in ("q", "few", "few", "few"):
        session.transfer(b"x", key)
    session.call(DtxEnd(XID))
    command = DtxCommit(XID, True) if is_one_phase else DtxPrepare(XID)
    assert status(session, command) == XaStatus.XA_RBROLLBACK
    if not is_one_phase:
        assert status(session, DtxCommit(XID)) == XaStatus.XA_RBROLLBACK
    assert count(session) == session.call(QueueQuery("few")).message_count == 0
    assert session.fault(DtxRollback(XID))[0] == 404


def test_what_is_prepared_is_committed_whatever_has_come_since(session: Session010) -> None:
    session.call(QueueDeclare("few", arguments=Map({"qpid.max_count": 2, "qpid.policy_type": "reject"})))
    session.call(DtxStart(XID))
    session.transfer(b"x", "few")
    session.transfer(b"x", "few")
    session.call(DtxEnd(XID))
    assert status(session, DtxPrepare(XID)) == XaStatus.XA_OK
    session.transfer(b"beside", "few")
    assert status(session, DtxCommit(XID)) == XaStatus.XA_OK
    assert session.call(QueueQuery("few")).message_count == 3


def test_time_that_is_over_rolls_back(session: Session010) -> None:
    session.call(DtxStart(XID))
    session.call(DtxSetTimeout(XID, 5))
    assert session.call(DtxGetTimeout(XID)).timeout == 5
    session.transfer(b"late")
    session.client.now += 6
    session.client.tick()
    assert status(session, DtxEnd(XID)) == XaStatus.XA_RBTIMEOUT
    assert status(session, DtxRollback(XID)) == XaStatus.XA_RBTIMEOUT
    assert count(session) == 0


@pytest.mark.parametrize("is_ended", [True, False])
def test_one_that_is_abandoned_is_rolled_back_after_the_usual_time(session: Session010, is_ended: bool) -> None:
    broker = session.client.broker
    session.transfer(b"before")
    other = Client010(broker).open().session(1, b"other")
    other.call(DtxSelect())
    other.subscribe("q", "d", messages=1)
    other.call(DtxStart(XID))
    assert other.call(DtxGetTimeout(XID)).timeout == DTX_TIMEOUT
    ((position, _),) = other.messages
    other.call(MessageAccept(SequenceSet.of([position])))
    if is_ended:
        other.call(DtxEnd(XID))
        other.client.connection.lose(other.client.now)
    session.client.now += DTX_TIMEOUT - 1
    session.client.tick()
    assert count(session) == 0
    session.client.now += 1
    session.client.tick()
    assert count(session) == 1
    if is_ended:
        assert status(session, DtxCommit(XID, True)) == XaStatus.XA_RBTIMEOUT
        assert session.fault(DtxRollback(XID))[0] == 404
    else:
        assert status(other, DtxEnd(XID)) == XaStatus.XA_RBTIMEOUT
        assert count(session) == 1


def test_what_a_session_does_in_one_that_was_rolled_back_comes_back_with_its_end(session: Session010) -> None:
    session.transfer(b"before")
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(DtxSelect())
    other.call(DtxStart(XID))
    session.client.now += DTX_TIMEOUT
    session.client.tick()
    other.subscribe("q", "d", messages=1)
    ((position, _),) = other.messages
    other.call(MessageAccept(SequenceSet.of([position])))
    assert count(session) == 0
    other.client.connection.lose(session.client.now)
    assert count(session) == 1
    assert status(session, DtxRollback(XID)) == XaStatus.XA_RBTIMEOUT


def test_what_is_prepared_waits_for_ever_and_zero_is_the_usual_time(session: Session010) -> None:
    session.call(DtxStart(XID))
    session.call(DtxSetTimeout(XID, 5))
    session.call(DtxSetTimeout(XID, 0))
    assert session.call(DtxGetTimeout(XID)).timeout == DTX_TIMEOUT
    session.transfer(b"x")
    session.call(DtxEnd(XID))
    assert status(session, DtxPrepare(XID)) == XaStatus.XA_OK
    session.client.now += 1e6
    session.client.tick()
    assert status(session, DtxCommit(XID)) == XaStatus.XA_OK
    assert count(session) == 1


def test_without_a_usual_time_one_waits_for_ever() -> None:
    session = Client010(Broker(dtx_timeout=0)).open().session()
    session.declare("q")
    session.call(DtxSelect())
    session.call(DtxStart(XID))
    assert session.call(DtxGetTimeout(XID)).timeout == 0
    session.client.now += 1e6
    session.client.tick()
    assert status(session, DtxEnd(XID)) == XaStatus.XA_OK


@pytest.mark.parametrize("timeout", [0, INFINITE])
def test_what_is_only_to_be_rolled_back_is_not_kept_by_a_timeout(timeout: int) -> None:
    broker = Broker(dtx_timeout=0)
    session = Client010(broker).open().session()
    session.call(DtxSelect())
    session.call(DtxStart(XID))
    session.call(DtxSetTimeout(XID, 5))
    session.call(DtxEnd(XID))
    session.client.now += 5
    session.client.tick()
    session.call(DtxSetTimeout(XID, timeout))
    session.client.now += REMEMBERED
    session.client.tick()
    assert broker.vhosts["/"].branches == {}


def test_a_session_that_ends_leaves_a_branch_that_is_only_rolled_back(session: Session010) -> None:
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(DtxSelect())
    other.call(DtxStart(XID))
    other.transfer(b"x")
    other.client.connection.lose(other.client.now)
    assert status(session, DtxPrepare(XID)) == XaStatus.XA_RBROLLBACK
    session.call(DtxRollback(XID))
    assert count(session) == 0


@pytest.mark.parametrize("is_joined", [False, True])
def test_what_was_accepted_in_a_branch_comes_back_once_no_session_is_left(session: Session010, is_joined: bool) -> None:
    session.transfer(b"before")
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(DtxSelect())
    other.subscribe("q", "d", messages=1)
    other.call(DtxStart(XID))
    ((position, _),) = other.messages
    other.call(MessageAccept(SequenceSet.of([position])))
    if is_joined:
        session.call(DtxStart(XID, join=True))
    other.client.connection.lose(other.client.now)
    other.client.rest()
    if is_joined:
        assert count(session) == 0
        session.client.connection.lose(session.client.now)
        session.client.rest()
        session = Client010(session.client.broker).open().session(1, b"third")
        session.call(DtxSelect())
    assert count(session) == 1
    assert status(session, DtxCommit(XID, True)) == XaStatus.XA_RBROLLBACK
    session.subscribe("q", "d")
    assert session.got() == [b"before"]


def test_suspend_resume_and_join(session: Session010) -> None:
    session.call(DtxStart(XID))
    session.transfer(b"in")
    session.call(DtxEnd(XID, suspend=True))
    session.transfer(b"beside")
    assert count(session) == 1
    session.call(DtxStart(XID, resume=True))
    session.call(DtxEnd(XID))
    other = session.client.session(2, b"other")
    other.call(DtxSelect())
    other.call(DtxStart(XID, join=True))
    other.transfer(b"joined")
    assert status(other, DtxEnd(XID, fail=True)) == XaStatus.XA_RBROLLBACK
    assert status(other, DtxCommit(XID, True)) == XaStatus.XA_RBROLLBACK
    assert count(session) == 1


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        ([DtxStart(XID, True, True)], 503),
        ([DtxStart(XID, True)], 530),
        ([DtxStart(XID), DtxStart(XID)], 409),
        ([DtxStart(XID), DtxEnd(XID), DtxStart(XID)], 530),
        ([DtxEnd(XID)], 409),
        ([DtxStart(XID), DtxEnd(XID, True, True)], 503),
        ([DtxPrepare(XID)], 404),
        ([DtxStart(XID), DtxPrepare(XID)], 409),
        ([DtxStart(XID), DtxEnd(XID), DtxCommit(XID)], 409),
        ([DtxStart(XID), DtxEnd(XID), DtxPrepare(XID), DtxCommit(XID, True)], 409),
        ([DtxStart(XID), DtxEnd(XID), DtxForget(XID)], 409),
        ([DtxStart()], 542),
        ([TxSelect()], 409),
    ],
)
def test_what_does_not_belong_there_is_refused(session: Session010, commands: list[Command], code: int) -> None:
    for command in commands[:-1]:
        session.call(command)
    assert session.fault(commands[-1])[0] == code


def test_one_user_has_so_many_branches_and_another_its_own() -> None:
    broker = Broker(quotas=UserQuotas(branches=2))
    second = User.with_password("second", "second")
    second.permit("/", Permission(".*", ".*", ".*"))
    broker.add_user(second)
    session = Client010(broker).open().session()
    other = Client010(broker).open(user="second", password="second").session()
    for each in (session, other):
        each.call(DtxSelect())
        for name in (b"1", b"2"):
            xid = Xid(1, each.client.connection.user.name.encode(), name)
            each.call(DtxStart(xid))
            each.call(DtxEnd(xid))
    assert status(session, DtxRollback(Xid(1, b"guest", b"1"))) == XaStatus.XA_OK
    assert session.call(DtxStart(XID)).status == XaStatus.XA_OK
    session.call(DtxEnd(XID))
    code, text = session.fault(DtxStart(Xid(1, b"one", b"more")))
    assert code == 506
    assert text.endswith("the user 'guest' has 2 branches, as many as it may")


def test_dtx_wants_to_be_selected() -> None:
    session = Client010(Broker()).open().session()
    assert session.fault(DtxStart(XID))[0] == 503
