"""Handlers of the tx commands. Section 10.3."""

from __future__ import annotations

from functools import partial

from amqproxy.amqp010.commands import TxCommit, TxRollback, TxSelect
from amqproxy.amqp010.errors import IllegalState
from amqproxy.amqp010.methods import Command
from amqproxy.broker.amqp010.command_session import CommandSession, Handler
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.work import Job


def _select(session: CommandSession, command: TxSelect, position: int, now: float) -> bool:
    if session.transaction is not None or session.is_distributed:
        raise IllegalState("the session is transactional already")
    session.transaction = WorkUnit(session.vhost)
    return False


def _commit(session: CommandSession, command: TxCommit, position: int, now: float) -> bool:
    transaction = _transaction(session)
    transaction.check()
    session.do(_committing(session, transaction, position, now), now)
    return True


def _committing(session: CommandSession, transaction: WorkUnit, position: int, now: float) -> Job:
    ticket = DurabilityTicket()
    yield from transaction.committing(ticket, now)
    session.when_kept(ticket, partial(session.complete, position))


def _rollback(session: CommandSession, command: TxRollback, position: int, now: float) -> bool:
    return session.finish(_transaction(session).rolling_back(session.deliveries, now), position, now)


def _transaction(session: CommandSession) -> WorkUnit:
    if session.transaction is None or session.is_distributed:
        raise IllegalState("the session is not transactional")
    return session.transaction


HANDLERS: dict[type[Command], Handler] = {
    TxSelect: _select,
    TxCommit: _commit,
    TxRollback: _rollback,
}
