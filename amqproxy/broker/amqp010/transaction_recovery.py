"""Recovery of transactions after a restart: prepared ones are prepared again, and begun commits continue."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.broker.amqp010.transaction_branch import BranchState, TransactionBranch
from amqproxy.broker.amqp010.transaction_log import KIND, StoredRow, TransactionLog, owner_of, xid_of
from amqproxy.broker.amqp010.work_unit import Acceptance, Publication, WorkUnit
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.paged_messages import Fetch
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.storage.definition_records import DefinitionRecord, DurableTransaction
from amqproxy.broker.vhost import VirtualHost


class TransactionRecovery:
    """Recovery for a broker, whose queues are all made before `lock`, and begin between `lock` and `begin`."""

    def __init__(self, broker: Broker, fetch: Fetch, durables: Iterable[DefinitionRecord]) -> None:
        self._broker = broker
        self._fetch = fetch
        self._records = [each for each in durables if isinstance(each, DurableTransaction)]
        self._found: list[tuple[VirtualHost, DurableTransaction, TransactionLog, list[StoredRow]]] = []

    def lock(self) -> None:
        """Mark the accepted messages in their queues, so that no other client gets them."""
        self._drop_others()
        for record in self._records:
            with self._broker.events.contained("cannot make again", what=f"transaction {record.name}"):
                self._lock(self._broker.vhosts[record.vhost], record)

    def _lock(self, vhost: VirtualHost, record: DurableTransaction) -> None:
        log = TransactionLog(vhost, record=record)
        rows = list(log.recovered(self._fetch))
        self._found.append((vhost, record, log, rows))
        for row in rows:
            for name in row.queues if row.message is None else ():
                vhost.locked.setdefault(name, {}).update(dict.fromkeys(row.places))

    def _drop_others(self) -> None:
        """Drop transactions without a virtual host, and logs of transactions that were never prepared."""
        storage = self._broker.storage
        if storage is None:
            return
        journal = storage.journal
        for record in [each for each in self._records if each.vhost not in self._broker.vhosts]:
            self._records.remove(record)
            journal.forget(record.key)
        owners = {owner_of(record) for record in self._records}
        for log in [each for each in journal.message_logs.values() if each.owner.kind == KIND]:
            if log.owner not in owners:
                journal.delete_log(log)

    def begin(self, now: float) -> None:
        """Restore the prepared transactions, and continue the decided ones."""
        for vhost, record, log, rows in self._found:
            with self._broker.events.contained("cannot make again", what=f"transaction {record.name}"):
                _begin(vhost, record, log, rows, now)
        self._found = []
        for vhost in self._broker.vhosts.values():
            vhost.locked = {}


def _begin(
    vhost: VirtualHost, record: DurableTransaction, log: TransactionLog, rows: list[StoredRow], now: float
) -> None:
    xid = None if record.is_decided else xid_of(record)
    if xid is None:
        unit = WorkUnit(vhost)
        unit.recover(log, *_work(vhost, rows))
        vhost.work.do(unit.committing(DurabilityTicket(), now), now)
    else:
        branch = TransactionBranch(vhost, xid)
        vhost.branches[xid.encode()] = branch
        branch.state = BranchState.PREPARED
        branch.unit.recover(log, *_work(vhost, rows))


def _work(vhost: VirtualHost, rows: list[StoredRow]) -> tuple[list[Publication], list[Acceptance]]:
    """Return the operations of the rows, as far as they are still possible."""
    published: list[Publication] = []
    accepted: list[Acceptance] = []
    for row in rows:
        queues = tuple(vhost.queues[name] for name in row.queues if name in vhost.queues)
        if row.message is not None:
            published.append(Publication(row.message, queues, row.position, row.size))
        for queue in queues if row.message is None else ():
            locked = vhost.locked.get(queue.name, {})
            entries = [entry for entry in map(locked.get, row.places) if entry is not None]
            accepted.append(Acceptance(queue, entries, row.position, row.size))
    return published, accepted
