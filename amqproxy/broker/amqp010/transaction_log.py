"""A transaction on the disk: a record of its existence, and a message log of its operations.

A row of that log is either a message, with the queues that it is for, or places in a queue whose messages are accepted.
Rows count only once the record is there: without it, a restart drops them.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from amqproxy.amqp010.results import Xid
from amqproxy.broker.message import Message
from amqproxy.broker.queues.paged_messages import Fetch
from amqproxy.broker.queues.queue import Place, Queue
from amqproxy.broker.storage.batch import DurabilityTicket, LogOwner
from amqproxy.broker.storage.definition_records import DurableTransaction
from amqproxy.broker.storage.packing import DAMAGED
from amqproxy.broker.vhost import VirtualHost

KIND = "transaction"
"""Kind of the owners of such logs."""

AT_ONCE = 64
"""Number of places in one row, and of rows read at once."""

_PLACE = struct.Struct(">BQ")


class StoredRow(NamedTuple):
    """Content of a row: a message for `queues` or, with None, accepted `places` in the only one of them.

    `position` and `size` are for `TransactionLog.done`.
    """

    position: int
    size: int
    message: Message | None
    queues: tuple[str, ...]
    places: tuple[Place, ...] = ()


def owner_of(record: DurableTransaction) -> LogOwner:
    """Return the owner of a transaction's message log."""
    return LogOwner(KIND, record.vhost, record.name)


class TransactionLog:
    """Log of one transaction, which has an `xid` or is of class tx. The virtual host must have a storage.

    `record` is the one found after a restart.
    """

    def __init__(self, vhost: VirtualHost, xid: Xid | None = None, record: DurableTransaction | None = None) -> None:
        assert vhost.storage is not None
        if record is None:
            record = _record(vhost.name, xid)
        self._vhost = vhost
        self._journal = vhost.storage.journal
        self._record = record
        self._log = self._journal.message_log(owner_of(record))
        self._queues: dict[Queue, None] = {}
        self._is_kept = False
        self._is_over = False

    @property
    def has_rows(self) -> bool:
        """Whether the transaction has any operation logged."""
        return self._log.messages > 0

    def publishes(self, message: Message, queues: Iterable[Queue], ticket: DurabilityTicket | None) -> tuple[int, int]:
        """Log a message for these queues; return the position and the size of the row."""
        queues = tuple(queues)
        self.uses(queues)
        names = tuple(queue.name for queue in queues)
        row = Message(message.exchange, message.routing_key, message.header, message.body, None, names)
        return self._add(row, ticket)

    def accepts(self, queue: Queue, places: Iterable[Place], ticket: DurabilityTicket | None) -> tuple[int, int]:
        """Log the places of accepted messages; return the position and the size of the row."""
        self.uses((queue,))
        body = b"".join([_PLACE.pack(*place) for place in places])
        return self._add(Message("", queue.name, b"", body), ticket)

    def uses(self, queues: Iterable[Queue]) -> None:
        """Register with queues, which notify the log when they are deleted."""
        for queue in queues:
            if queue not in self._queues:
                self._queues[queue] = None
                self._vhost.queue_users.setdefault(queue, {})[self] = None

    def _add(self, row: Message, ticket: DurabilityTicket | None) -> tuple[int, int]:
        position = self._log.last + 1
        self._log.enqueued(position, row, ticket=ticket)
        return position, len(row.body)

    def keep(self, *, is_decided: bool) -> None:
        """Keep the transaction over a restart, unless it was deleted; with `is_decided`, the restart commits it."""
        if self._is_over:
            return
        self._is_kept = True
        self._record = structs.replace(self._record, is_decided=is_decided)
        self._journal.remember(self._record)

    def done(self, position: int, size: int) -> None:
        """Settle a row whose operation is done in this very turn."""
        self._log.settled(position, size)

    def delete(self) -> None:
        """Delete the log: all operations are done, or none will be."""
        if self._is_over:
            return
        self._is_over = True
        if self._is_kept:
            self._journal.forget(self._record.key)
        if self._journal.message_logs.get(self._log.owner) is self._log:
            self._journal.delete_log(self._log)
        for queue in self._queues:
            users = self._vhost.queue_users.get(queue)
            if users is not None:
                users.pop(self, None)
                if not users:
                    del self._vhost.queue_users[queue]
        self._queues.clear()

    def queue_deleted(self, queue: Queue) -> None:
        """Note that a queue of the transaction is deleted: after a restart, another one may have its name."""
        self._queues.pop(queue, None)
        self._record = structs.replace(self._record, gone=(*self._record.gone, queue.name))
        if self._is_kept and not self._is_over:
            self._journal.remember(self._record)

    def recovered(self, fetch: Fetch) -> Iterator[StoredRow]:
        """Yield the rows logged before a restart, in order, that are not done."""
        self._is_kept = True
        position = 0
        while rows := fetch(self._log.number, position, AT_ONCE):
            for row in rows:
                if row.message is not DAMAGED:
                    yield self._row(row.position, row.message)
            position = rows[-1].position + 1

    def _row(self, position: int, row: Message) -> StoredRow:
        gone, size = self._record.gone, len(row.body)
        if row.header:
            message = Message(row.exchange, row.routing_key, row.header, row.body)
            return StoredRow(position, size, message, tuple(name for name in row.more_keys if name not in gone))
        if cut := size % _PLACE.size:  # the whole places count, and the broker starts
            error = ValueError("cut short")
            self._vhost.events.fail("stored message damaged", error, message_log=self._log.number, position=position)
        places = tuple((each[0], each[1]) for each in _PLACE.iter_unpack(row.body[: size - cut]))
        return StoredRow(position, size, None, () if row.routing_key in gone else (row.routing_key,), places)


def _record(vhost: str, xid: Xid | None) -> DurableTransaction:
    if xid is None:
        return DurableTransaction(vhost=vhost, name=f"tx-{secrets.token_hex(12)}")
    return DurableTransaction(
        vhost=vhost,
        name=xid.encode().hex(),
        format=xid.format,
        global_id=None if xid.global_id is None else xid.global_id.hex(),
        branch_id=None if xid.branch_id is None else xid.branch_id.hex(),
    )


def xid_of(record: DurableTransaction) -> Xid | None:
    """Return the xid that `TransactionLog` was given."""
    if record.name.startswith("tx-"):
        return None
    global_id = None if record.global_id is None else bytes.fromhex(record.global_id)
    branch_id = None if record.branch_id is None else bytes.fromhex(record.branch_id)
    return Xid(record.format, global_id, branch_id)
