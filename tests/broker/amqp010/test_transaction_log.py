"""What of a transaction is on the disk."""

from __future__ import annotations

from amqproxy.amqp010.results import Xid
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp010.transaction_log import KIND, StoredRow, TransactionLog, owner_of, xid_of
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.definition_records import DurableTransaction
from amqproxy.broker.vhost import VirtualHost
from tests.broker.disk import Disk

XID = Xid(7, b"\x00g", None)
MESSAGE = Message.made("x", "k", Properties(delivery_mode=2), b"body")


class Place:
    """A virtual host `v` with two durable queues, and a played disk for a transaction's log."""

    def __init__(self) -> None:
        self.disk = Disk(owner=LogOwner(KIND, "v", XID.encode().hex()))
        self.vhost = VirtualHost("v")
        self.vhost.storage = QueueStorage(self.disk.journal, self.disk.fetch)

    def queue(self, name: str) -> Queue:
        return self.vhost.declare_queue(
            name, None, durable=True, exclusive=False, auto_delete=False, arguments=Table(), now=0.0
        )

    def records(self) -> list[DurableTransaction]:
        self.disk.commit()
        return [each for each in self.disk.durables.values() if isinstance(each, DurableTransaction)]


def test_rows_are_found_again() -> None:
    place = Place()
    first, second = place.queue("a"), place.queue("b")
    log = TransactionLog(place.vhost, XID)
    assert not log.has_rows
    assert log.publishes(MESSAGE, (first, second), None) == (1, 4)
    assert log.accepts(first, ((0, 5), (255, 1 << 40)), None) == (2, 18)
    assert log.has_rows
    assert place.records() == []
    log.keep(is_decided=False)
    (record,) = place.records()
    assert (record.is_decided, xid_of(record)) == (False, XID)
    assert owner_of(record) == place.disk.owner
    rows = list(TransactionLog(place.vhost, record=record).recovered(place.disk.fetch))
    assert [(row.position, row.size, row.queues, row.places) for row in rows] == [
        (1, 4, ("a", "b"), ()),
        (2, 18, ("a",), ((0, 5), (255, 1 << 40))),
    ]
    assert rows[0].message is not None
    assert (rows[0].message.exchange, rows[0].message.routing_key, rows[0].message.body) == ("x", "k", b"body")
    assert rows[0].message.properties.delivery_mode == 2
    assert rows[0].message.more_keys == ()
    assert isinstance(rows[1], StoredRow)
    assert rows[1].message is None


def test_what_is_done_is_gone() -> None:
    place = Place()
    log = TransactionLog(place.vhost, XID)
    rows = [log.publishes(MESSAGE, (place.queue("a"),), None) for _ in range(3)]
    log.keep(is_decided=True)
    (record,) = place.records()
    assert record.is_decided
    log.done(*rows[0])
    place.disk.commit()
    assert [each.position for each in place.disk.rows.values()] == [2, 3]
    log.delete()
    log.delete()
    assert place.records() == []
    assert place.disk.owner not in place.disk.journal.message_logs
    assert place.vhost.queue_users == {}


def test_what_was_deleted_while_it_was_noted_is_not_kept() -> None:
    place = Place()
    log = TransactionLog(place.vhost, XID)
    log.delete()
    log.keep(is_decided=False)
    assert place.records() == []


def test_of_a_row_that_was_cut_the_rest_counts() -> None:
    place = Place()
    failures: list[str] = []
    place.vhost.events.on_failure = lambda event, error, **fields: failures.append(event)
    log = TransactionLog(place.vhost, XID)
    log.accepts(place.queue("a"), ((0, 5), (0, 6)), None)
    log.keep(is_decided=False)
    (record,) = place.records()
    (id_,) = place.disk.rows
    stored = place.disk.rows[id_]
    message = stored.message
    cut = Message(message.exchange, message.routing_key, message.header, message.body[:-1])
    place.disk.rows[id_] = stored._replace(message=cut)
    (row,) = TransactionLog(place.vhost, record=record).recovered(place.disk.fetch)
    assert (row.places, row.size) == (((0, 5),), 17)
    assert failures == ["stored message damaged"]


def test_a_queue_that_is_deleted_is_noted() -> None:
    place = Place()
    queue = place.queue("a")
    log = TransactionLog(place.vhost, XID)
    log.publishes(MESSAGE, (queue, place.queue("b")), None)
    log.keep(is_decided=False)
    place.vhost.remove_queue(queue)
    (record,) = place.records()
    assert record.gone == ("a",)
    (row,) = TransactionLog(place.vhost, record=record).recovered(place.disk.fetch)
    assert row.queues == ("b",)


def test_one_of_tx_has_a_name_of_its_own() -> None:
    place = Place()
    for _ in range(2):
        TransactionLog(place.vhost).keep(is_decided=True)
    records = place.records()
    assert len(records) == 2
    assert [xid_of(record) for record in records] == [None, None]
