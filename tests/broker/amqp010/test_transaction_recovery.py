"""What was prepared survives a kill at any moment, and a commit is done as a whole or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRecover,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExchangeBind,
    MessageAccept,
    MessageCancel,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.amqp010 import work_unit
from amqproxy.broker.storage.batch import POSITION_BITS
from tests.broker.amqp010.client import Session010
from tests.broker.amqp010.stored import StoredBroker

XID = Xid(4, b"global", b"branch")
STEP = 4
MANY = 2 * STEP + 2


@pytest.fixture(autouse=True)
def _steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_unit, "AT_ONCE", STEP)


def put(session: Session010, body: bytes, key: str, *, exchange: str = "", mode: int = 2) -> None:
    session.transfer(body, exchange=exchange, delivery=DeliveryProperties(routing_key=key, delivery_mode=mode))


def call(broker: StoredBroker, session: Session010, *commands: object) -> None:
    """Send commands that are complete once the disk has them."""
    for command in commands:
        command_id = session.send(command)  # type: ignore[arg-type]
        broker.go_on()
        assert command_id in session.take().completed, command


def bodies(session: Session010, queue: str) -> list[bytes]:
    """All that is ready in a queue, which stays there."""
    session.subscribe(queue, "look", accept_mode=0)
    found = session.got()
    session.call(MessageCancel("look"))
    session.client.connection.lose(session.client.now)
    session.client.rest()
    return found


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def furnish(broker: StoredBroker, type_: str = "classic") -> Session010:
    """A queue `p` with many messages, and `q` with none."""
    session = broker.session()
    arguments = Map({"x-queue-type": type_}) if type_ != "classic" else None
    for name in ("p", "q"):
        call(broker, session, QueueDeclare(name, durable=True, arguments=arguments))
    for body in numbers(0, MANY + 3):
        put(session, body, "p")
    broker.go_on()
    return session


def work(broker: StoredBroker, session: Session010, count: int) -> None:
    """Accept so many messages of `p` behind the first, and publish as many to `q`, in a branch or tx."""
    session.subscribe("p", "d", messages=count + 1)
    positions = [position for position, _ in session.messages[1:]]
    session.messages = []
    session.send(MessageAccept(SequenceSet.of(positions)))
    session.send(MessageCancel("d"))
    for body in numbers(1000, count):
        put(session, body, "q")
    broker.go_on()
    session.take()


def found(directory: Path, end: object = None) -> tuple[list[bytes], list[bytes], int]:
    """What is in the two queues after a kill, once `end` has ended what was in doubt; and how much was that."""
    with StoredBroker(directory) as broker:
        session = broker.session()
        in_doubt = session.call(DtxRecover()).in_doubt
        assert len(in_doubt) in (0, 1)
        if len(in_doubt) and end is not None:
            assert (in_doubt[0].format, in_doubt[0].global_id, in_doubt[0].branch_id) == (4, b"global", b"branch")
            call(broker, session, DtxSelect(), end)
            assert session.results[session.sent - 1].status == XaStatus.XA_OK
            assert len(session.call(DtxRecover()).in_doubt) == 0
        broker.go_on()
        first, second = bodies(broker.session(2, b"look"), "p"), bodies(broker.session(3, b"look"), "q")
    return first, second, len(in_doubt)


@pytest.mark.parametrize("count", [3, MANY])
@pytest.mark.parametrize("type_", ["classic", "quorum"])
def test_a_kill_between_any_two_writes(tmp_path: Path, type_: str, count: int) -> None:
    with StoredBroker(tmp_path / "first", step=STEP) as broker:
        session = furnish(broker, type_)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, count)
        call(broker, session, DtxEnd(XID))
        broker.copies = tmp_path
        call(broker, session, DtxPrepare(XID))
        assert session.results[session.sent - 1].status == XaStatus.XA_OK
        prepared = len(broker.copied) - 1
        call(broker, session, DtxCommit(XID))
        assert session.results[session.sent - 1].status == XaStatus.XA_OK
    before = numbers(0, MANY + 3)
    nothing = before, []
    everything = [*before[:1], *before[count + 1 :]], numbers(1000, count)
    outcomes = []
    for number, directory in enumerate(broker.copied):
        end, done = ((DtxCommit(XID), everything), (DtxRollback(XID), nothing))[number % 2]
        first, second, in_doubt = found(directory, end)
        if type_ == "quorum":  # what has come back has its turn again
            first.sort(key=int)
        assert (first, second) == (done if in_doubt else nothing if number < prepared else everything)
        outcomes.append(in_doubt)
    assert outcomes[prepared]
    assert not outcomes[-1]
    assert 0 in outcomes[:prepared]


@pytest.mark.parametrize("end", [DtxCommit(XID), DtxRollback(XID)])
def test_a_kill_while_what_was_found_again_is_ended(tmp_path: Path, end: DtxCommit | DtxRollback) -> None:
    with StoredBroker(tmp_path / "first") as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, MANY)
        call(broker, session, DtxEnd(XID), DtxPrepare(XID))
    with StoredBroker(tmp_path / "first", step=STEP) as broker:
        session = broker.session()
        broker.copies = tmp_path
        call(broker, session, DtxSelect(), end)
    before = numbers(0, MANY + 3)
    everything = [*before[:1], *before[MANY + 1 :]], numbers(1000, MANY)
    for directory in broker.copied:
        assert found(directory, end)[:2] == (everything if isinstance(end, DtxCommit) else (before, []))


def test_what_is_in_doubt_is_for_nobody_else(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, 3)
        call(broker, session, DtxEnd(XID), DtxPrepare(XID))
    before = numbers(0, MANY + 3)
    for _ in range(2):
        with StoredBroker(tmp_path) as broker:
            assert bodies(broker.session(), "p") == [*before[:1], *before[4:]]
            assert bodies(broker.session(), "q") == []


@pytest.mark.parametrize("count", [3, MANY])
def test_a_commit_of_tx_is_whole(tmp_path: Path, count: int) -> None:
    with StoredBroker(tmp_path / "first", step=STEP) as broker:
        session = furnish(broker)
        call(broker, session, TxSelect())
        work(broker, session, count)
        broker.copies = tmp_path
        call(broker, session, TxCommit())
    before = numbers(0, MANY + 3)
    everything = [*before[:1], *before[count + 1 :]], numbers(1000, count)
    outcomes = []
    for directory in broker.copied:
        first, second, in_doubt = found(directory)
        assert (first, second) in ((before, []), everything)
        assert not in_doubt
        outcomes.append(bool(second))
    assert outcomes == sorted(outcomes)
    assert outcomes[-1]


def test_a_full_disk_fails_the_prepare_and_loses_nothing(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, 3)
        call(broker, session, DtxEnd(XID))
        session.send(DtxPrepare(XID))
        broker.write_with_full_disk()
        session.client.tick()
        session.take()
        assert session.exception is not None
        assert session.exception.error_code == 506
        assert "full" in session.exception.description
        broker.go_on()
        assert not [owner for owner in broker.journal.message_logs if owner.kind == "transaction"]
        session = broker.session(2, b"again")
        assert len(session.call(DtxRecover()).in_doubt) == 0
        call(broker, session, DtxPrepare(XID))
        assert session.results[session.sent - 1].status == XaStatus.XA_OK
    before = numbers(0, MANY + 3)
    assert found(tmp_path, DtxCommit(XID)) == ([*before[:1], *before[4:]], numbers(1000, 3), 1)


def test_only_what_is_durable_is_there_again(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, QueueDeclare("transient"))
        for name in ("q", "transient"):
            call(broker, session, ExchangeBind(name, "amq.fanout", ""))
        call(broker, session, DtxSelect(), DtxStart(XID))
        put(session, b"kept", "", exchange="amq.fanout")
        put(session, b"transient", "q", mode=1)
        call(broker, session, DtxEnd(XID), DtxPrepare(XID))
    with StoredBroker(tmp_path) as broker:
        session = broker.session()
        call(broker, session, DtxSelect(), DtxCommit(XID))
        assert bodies(session, "q") == [b"kept"]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_queue_that_was_deleted_since_is_not_the_next_of_its_name(tmp_path: Path, is_before: bool) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, 3)
        call(broker, session, DtxEnd(XID))
        if not is_before:
            call(broker, session, DtxPrepare(XID))
        for name in ("p", "q"):
            call(broker, session, QueueDelete(name), QueueDeclare(name, durable=True))
        if is_before:
            call(broker, session, DtxPrepare(XID))
        for body in numbers(0, 5):
            put(session, body, "p")
        broker.go_on()
    with StoredBroker(tmp_path) as broker:
        assert bodies(broker.session(), "p") == numbers(0, 5)
        session = broker.session()
        call(broker, session, DtxSelect(), DtxCommit(XID))
        assert session.call(QueueQuery("q")).message_count == 0
        assert bodies(session, "p") == numbers(0, 5)


@pytest.mark.parametrize(
    ("damage", "is_left"),
    [
        ("update entry set content = substr(content, 1, length(content) - 1)", True),
        ("update entry set content = substr(content, 1, 5)", True),
        ("update definition set value = cast(replace(cast(value as text), 'd\":\"67', 'd\":\"zz') as blob)", False),
        ("update definition set value = cast(replace(cast(value as text), 't\":4', 't\":-4') as blob)", False),
    ],
    ids=["row cut by a byte", "row cut short", "no hexadecimal", "no format"],
)
def test_what_cannot_be_read_keeps_the_broker_from_nothing_else(tmp_path: Path, damage: str, is_left: bool) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, 3)
        call(broker, session, DtxEnd(XID), DtxPrepare(XID))
        (number,) = [log.number for log in broker.journal.message_logs.values() if log.owner.kind == "transaction"]
    if "entry" in damage:
        damage += f" where id >> {POSITION_BITS} = {number}"
    with closing(sqlite3.connect(broker.store.path)) as database:
        assert database.execute(damage).rowcount
        database.commit()
    with StoredBroker(tmp_path) as broker:
        session = broker.session()
        assert len(session.call(DtxRecover()).in_doubt) == is_left
        found = bodies(broker.session(2, b"look"), "p")
        assert set(found) >= set(numbers(4, MANY - 1))


def test_nothing_is_left_of_a_virtual_host_that_is_deleted(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as broker:
        session = furnish(broker)
        call(broker, session, DtxSelect(), DtxStart(XID))
        work(broker, session, 3)
        call(broker, session, DtxEnd(XID), DtxPrepare(XID))
        broker.broker.delete_vhost("/", 1000.0)
        broker.go_on()
        assert not [owner for owner in broker.journal.message_logs if owner.kind == "transaction"]
    with StoredBroker(tmp_path) as broker:
        assert not broker.broker.vhosts
