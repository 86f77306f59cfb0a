"""What is complete is on the disk: publishes, declarations and commits, where there is a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxSelect,
    DtxStart,
    ExchangeBind,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.recovery import DefinitionRecorder, topology
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.definition_records import DurableBinding, DurableQueue
from tests.broker.amqp010.client import Client010, Session010
from tests.broker.amqp010.stored import StoredBroker
from tests.broker.disk import Disk

PERSISTENT = DeliveryProperties(routing_key="q", delivery_mode=2)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def session(disk: Disk) -> Session010:
    broker = Broker()
    broker.use_storage(QueueStorage(disk.journal, disk.fetch))
    recorder = DefinitionRecorder(broker, disk.journal)
    recorder.begin([])
    return Client010(broker).open().session()


def declared(session: Session010, disk: Disk) -> None:
    command_id = session.send(QueueDeclare("q", durable=True))
    assert command_id not in session.take().completed
    disk.commit()
    assert command_id in session.take().completed


def test_a_publish_is_complete_once_the_disk_has_it(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    kept = session.transfer(b"kept", delivery=PERSISTENT, accept_mode=0)
    sync = session.send(ExecutionSync())
    transient = session.transfer(b"transient")
    assert not {kept, sync} & session.take().completed
    assert transient in session.completed
    assert not any(isinstance(each, MessageAccept) for each in session.others)
    disk.commit()
    assert {kept, sync} <= session.take().completed
    assert session.others == [MessageAccept(SequenceSet.of([kept]))]


@pytest.mark.parametrize("is_synced", [False, True])
def test_so_is_one_that_nothing_comes_after(session: Session010, disk: Disk, is_synced: bool) -> None:
    declared(session, disk)
    for _ in range(2):
        session.call(ExecutionSync())
        sent = {session.transfer(b"kept", delivery=PERSISTENT)}
        if is_synced:
            sent.add(session.send(ExecutionSync()))
        assert not sent & session.take().completed
        disk.commit()
        assert sent <= session.take().completed


def test_a_publish_that_is_accepted_before_the_disk_has_it_is_complete(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    session.subscribe("q", "d")
    kept = session.transfer(b"kept", delivery=PERSISTENT)
    ((position, _),) = session.take().messages
    session.send(MessageAccept(SequenceSet.of([position])))
    assert kept in session.take().completed


def test_a_commit_is(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    session.call(TxSelect())
    session.transfer(b"kept", delivery=PERSISTENT)
    commit = session.send(TxCommit())
    assert commit not in session.take().completed
    disk.commit()
    assert commit in session.take().completed
    assert len(disk.rows) == 1


def test_and_so_is_that_of_a_branch(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    xid = Xid(1, b"g", b"b")
    session.call(DtxSelect())
    session.call(DtxStart(xid))
    session.transfer(b"kept", delivery=PERSISTENT)
    session.call(DtxEnd(xid))
    commit = session.send(DtxCommit(xid, True))
    assert commit not in session.take().completed
    disk.commit()
    assert session.take().results[commit].status == 0
    assert commit in session.completed
    assert len(disk.rows) == 1


def test_a_client_that_is_gone_waits_for_nothing(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    session.transfer(b"kept", delivery=PERSISTENT)
    session.client.connection.lose(session.client.now)
    disk.commit()
    assert len(disk.rows) == 1


def test_an_exclusive_queue_that_stays_is_kept_with_its_bindings(session: Session010, disk: Disk) -> None:
    session.send(QueueDeclare("mine", durable=True, exclusive=True))
    session.send(ExchangeBind("mine", "amq.topic", "a.*"))
    disk.commit()
    kinds = {DurableQueue, DurableBinding}
    assert {type(each) for each in topology(session.client.broker.vhosts["/"])} == kinds
    assert {type(each) for each in disk.durables.values()} >= kinds


def test_what_was_too_large_for_the_credit_is_kept_without_acceptance(session: Session010, disk: Disk) -> None:
    declared(session, disk)
    session.transfer(b"kept", delivery=PERSISTENT)
    disk.commit()
    session.subscribe("q", "d", accept_mode=1, size=10)
    assert session.got() == []
    (log,) = disk.journal.message_logs.values()
    assert log.messages == 1
    session.send(MessageFlow("d", 1, 1000))
    assert session.got() == [b"kept"]
    assert log.messages == 0


def test_what_a_deleted_queue_leaves_is_complete_once_the_disk_has_the_copy(session: Session010, disk: Disk) -> None:
    """Killed between the two, the broker would otherwise have lost what it had confirmed."""
    session.send(QueueDeclare("with", "amq.fanout", durable=True))
    declared(session, disk)
    session.send(ExchangeBind("q", "amq.fanout", ""))
    disk.commit()
    session.take()
    transfer = session.transfer(
        b"kept", accept_mode=0, delivery=DeliveryProperties(routing_key="with", delivery_mode=2)
    )
    delete = session.send(QueueDelete("with"))
    assert not {transfer, delete} & session.take().completed
    disk.commit()
    assert {transfer, delete} <= session.take().completed
    assert [row.message.body for row in disk.rows.values()] == [b"kept"]


def test_an_exclusive_queue_is_taken_up_again_after_a_restart(tmp_path: Path) -> None:
    """As a durable subscription of JMS is."""
    with StoredBroker(tmp_path) as broker:
        session = broker.session()
        session.send(QueueDeclare("sub", durable=True, exclusive=True))
        session.transfer(b"kept", delivery=DeliveryProperties(routing_key="sub", delivery_mode=2))
        broker.write()
    with StoredBroker(tmp_path) as broker:
        session, other = broker.session(), broker.session(name=b"other")
        session.call(QueueDeclare("sub", durable=True, exclusive=True))
        session.subscribe("sub")
        assert session.got() == [b"kept"]
        assert other.fault(QueueDeclare("sub", durable=True, exclusive=True))[0] == 405
