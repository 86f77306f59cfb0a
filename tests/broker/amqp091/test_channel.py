"""Consuming, getting and settling on a channel, as the client of one sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.frame import encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.recovery import DefinitionRecorder
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.journal import Journal
from tests.broker.client import Client, connected
from tests.broker.yard import message

NOWHERE = "channel 404 basic.publish NOT_FOUND - no exchange 'nowhere' in vhost '/'"


@pytest.fixture
def client() -> Client:
    client = connected()
    client.declare("q")
    return client


def fill(client: Client, count: int, queue: str = "q") -> None:
    for number in range(count):
        client.publish("", queue, str(number).encode())
        client.now += 0.001  # so that they are no chunk of a stream


def got(client: Client) -> str:
    """What came: deliveries as tag, body and * where redelivered."""
    return " ".join(
        f"{each.method.delivery_tag}:{each.body.decode()}{'*' * each.method.redelivered}"
        if isinstance(each.method, BasicDeliver)
        else each.method.name
        for each in client.receive()
    )


def transcript(client: Client, *steps: tuple[Method, str]) -> None:
    for method, expected in steps:
        client.send(1, method)
        assert (method, got(client)) == (method, expected)


CONSUME = BasicConsume(queue="q", consumer_tag="c")


def test_prefetch_of_consumers_made_later(client: Client) -> None:
    fill(client, 6)
    transcript(
        client,
        (BasicQos(0, 2), "basic.qos-ok"),
        (CONSUME, "basic.consume-ok 1:0 2:1"),
        (BasicQos(0, 5), "basic.qos-ok"),
        (BasicAck(2, True), "3:2 4:3"),
        (BasicNack(3, False, True), "5:2*"),
        (BasicReject(4, False), "6:4"),
    )


def test_global_prefetch(client: Client) -> None:
    """All consumers of the channel share it, those without acks wait for it too, and basic.get is not counted."""
    fill(client, 6)
    transcript(
        client,
        (BasicQos(0, 2, True), "basic.qos-ok"),
        (BasicGet(queue="q"), "basic.get-ok"),
        (CONSUME, "basic.consume-ok 2:1 3:2"),
        (BasicConsume(queue="q", consumer_tag="d"), "basic.consume-ok"),
        (BasicConsume(queue="q", consumer_tag="e", no_ack=True), "basic.consume-ok"),
        (BasicAck(1), ""),
        (BasicAck(2), "4:3"),
        (BasicQos(0, 3, True), "basic.qos-ok 5:4"),
        (BasicQos(0, 0, True), "basic.qos-ok 6:5"),
    )


def test_settling(client: Client) -> None:
    fill(client, 5)
    transcript(
        client,
        (CONSUME, "basic.consume-ok 1:0 2:1 3:2 4:3 5:4"),
        (BasicAck(2), ""),
        (BasicNack(3, True, True), "6:0* 7:2*"),
        (BasicAck(0, True), ""),
        (BasicNack(0, True, True), ""),
        (BasicRecover(True), "basic.recover-ok"),
        (QueueDelete(queue="q"), "queue.delete-ok basic.cancel"),
    )


def test_recover(client: Client) -> None:
    fill(client, 2)
    transcript(
        client,
        (CONSUME, "basic.consume-ok 1:0 2:1"),
        (BasicRecover(True), "basic.recover-ok 3:0* 4:1*"),
        (BasicRecoverAsync(True), "5:0* 6:1*"),
    )


UNKNOWN = "channel 406 {} PRECONDITION_FAILED - unknown delivery tag {}"


@pytest.mark.parametrize(
    ("settle", "tag"),
    [
        (BasicAck(9), 9),
        (BasicAck(9, True), 9),
        (BasicAck(0), 0),
        (BasicAck(1), 1),
        (BasicAck(1, True), 1),
        (BasicNack(4, True), 4),
        (BasicNack(0), 0),
        (BasicReject(7), 7),
    ],
)
@pytest.mark.parametrize("before", [[], [TxSelect()]], ids=["", "tx"])
def test_unknown_tags(client: Client, settle: Method, tag: int, before: list[Method]) -> None:
    """Tag 1 is settled, 2 and 3 are there."""
    fill(client, 3)
    answer = client.answers(*before, CONSUME, BasicAck(1), settle)
    assert answer == UNKNOWN.format(settle.name, tag)
    assert client.broker.vhosts["/"].queues["q"].message_count == (3 if before else 2)


def test_what_a_channel_held_comes_back_when_it_closes(client: Client) -> None:
    fill(client, 3)
    client.channel(2)
    client.send(2, BasicQos(0, 2))
    client.send(2, CONSUME)
    assert got(client) == "basic.qos-ok basic.consume-ok 1:0 2:1"
    client.send(1, CONSUME)
    assert got(client) == "basic.consume-ok 1:2"
    client.send(2, ChannelClose(200, ""))
    assert got(client) == "2:0* 3:1* channel.close-ok"


def test_cancel(client: Client) -> None:
    """What it holds stays out; it can be acked, and comes back when it is not wanted."""
    transcript(client, (CONSUME, "basic.consume-ok"))
    fill(client, 2)
    assert got(client) == ""
    transcript(
        client,
        (BasicCancel("c"), "basic.cancel-ok"),
        (BasicNack(1, True, True), ""),
        (BasicAck(2), ""),
        (BasicGet(queue="q"), "basic.get-ok"),
        (BasicCancel("c"), "basic.cancel-ok"),
    )


def test_get(client: Client) -> None:
    fill(client, 3)
    client.send(1, BasicGet(queue="q"))
    (received,) = client.receive()
    assert (received.method.delivery_tag, received.method.message_count, received.method.redelivered) == (1, 2, False)
    client.send(1, BasicReject(1, True))
    client.send(1, BasicGet(queue="q", no_ack=True))
    (received,) = client.receive()
    assert (received.method.delivery_tag, received.method.message_count, received.method.redelivered) == (2, 2, True)
    transcript(client, (QueuePurge(queue="q"), "queue.purge-ok"), (BasicGet(queue="q"), "basic.get-empty"))


def test_tx(client: Client) -> None:
    """Acks wait for the commit; a rollback leaves messages out, and they can be settled otherwise."""
    fill(client, 3)
    queue = client.broker.vhosts["/"].queues["q"]
    transcript(
        client,
        (TxSelect(), "tx.select-ok"),
        (CONSUME, "basic.consume-ok 1:0 2:1 3:2"),
        (BasicAck(2), ""),
        (BasicNack(1, False, True), ""),
        (TxRollback(), "tx.rollback-ok"),
        (BasicAck(2, True), ""),
        (BasicNack(3, False, True), ""),
    )
    assert queue.unacked == 3
    transcript(client, (TxCommit(), "4:2* tx.commit-ok"), (ChannelClose(200, ""), "channel.close-ok"))
    assert (queue.unacked, queue.message_count) == (0, 1)


def test_acks_of_a_transaction_that_never_ends_are_none(client: Client) -> None:
    fill(client, 2)
    client.answers(TxSelect(), CONSUME, BasicAck(1), ChannelClose(200, ""))
    queue = client.broker.vhosts["/"].queues["q"]
    assert (queue.unacked, queue.message_count) == (0, 2)


def test_confirms_around_a_refusal(client: Client) -> None:
    client.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.ask(ConfirmSelect())
    assert client.publish("", "q") == "basic.ack"
    client.send(1, BasicNack(0, True, True))
    assert [client.publish("", name) for name in ("full", "q")] == ["basic.nack", "basic.ack"]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def kept(journal: Journal) -> Client:
    """A client of a broker with a disk, in confirm mode, and with two durable queues, "a" and "b"."""
    broker = Broker()
    broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
    client = Client(broker).open()
    client.channel()
    for name in "ab":
        client.declare(name, durable=True)
    client.ask(ConfirmSelect())
    journal.committed(journal.take_batch())
    return client


def test_a_confirm_waits_for_the_disk(kept: Client, journal: Journal) -> None:
    assert kept.publish("", "a", delivery_mode=1) == "basic.ack"
    assert kept.publish("", "a", delivery_mode=2) == ""
    assert kept.publish("", "a", delivery_mode=1) == ""
    batch = journal.take_batch()
    assert kept.publish("", "a", delivery_mode=2) == ""
    journal.committed(batch)
    assert [(each.method.delivery_tag, each.method.multiple) for each in kept.receive()] == [(3, True)]
    journal.committed(journal.take_batch())
    assert [(each.method.delivery_tag, each.method.multiple) for each in kept.receive()] == [(4, False)]


@pytest.mark.parametrize(
    ("who", "name", "methods"),
    [
        ("connection", "_answer_kept", [QueueDeclare(queue="new", durable=True), QueueDelete(queue="new")]),
        ("channel", "_commit_kept", [TxCommit()]),
    ],
)
def test_an_answer_that_fails_when_the_disk_has_it_ends_the_connection(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, who: str, name: str, methods: list[Method]
) -> None:
    broker = Broker()
    broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
    DefinitionRecorder(broker, journal).begin(())
    client = connected(broker)
    client.send(1, QueueDeclare(queue="a", durable=True))
    journal.committed(journal.take_batch())
    client.receive()
    if who == "channel":
        client.ask(TxSelect())
        client.send(1, BasicPublish(routing_key="a"), delivery_mode=2)

    def fails(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(client.connection if who == "connection" else client.connection.channels[1], name, fails)
    for method in methods:
        client.send(1, method)
    assert client.transcript() == ""
    journal.committed(journal.take_batch())
    broker.tick(client.now)
    assert client.transcript().startswith("connection 541 0.0 INTERNAL_ERROR")
    assert not client.connection.is_awaiting
    client.send(0, ConnectionCloseOk())
    assert client.connection.is_over


def test_a_confirm_need_not_wait_for_the_disk_when_the_message_has_been_used(kept: Client) -> None:
    kept.ask(BasicConsume(queue="a", no_ack=True))
    assert kept.publish("", "a", delivery_mode=2) == "basic.deliver · basic.ack"
    kept.ask(BasicConsume(queue="b"))
    assert kept.publish("", "b", delivery_mode=2) == "basic.deliver"
    assert kept.answers(BasicAck(2)) == "basic.ack"


def test_confirms_come_in_their_order(kept: Client, journal: Journal) -> None:
    kept.ask(BasicConsume(queue="b", no_ack=True))
    assert kept.publish("", "a", delivery_mode=2) == ""
    assert kept.publish("", "b", delivery_mode=2) == "basic.deliver"
    journal.committed(journal.take_batch())
    assert [(each.method.delivery_tag, each.method.multiple) for each in kept.receive()] == [(2, True)]


def test_a_dead_letter_is_confirmed_when_the_disk_has_it(kept: Client, journal: Journal) -> None:
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"}
    kept.declare("c", durable=True, arguments=letters)
    kept.ask(BasicConsume(queue="c"))
    assert kept.publish("", "c", delivery_mode=2) == "basic.deliver"
    assert kept.answers(BasicReject(1, False)) == ""
    assert kept.broker.vhosts["/"].queues["a"].message_count == 1
    journal.committed(journal.take_batch())
    assert kept.transcript() == "basic.ack"


def test_a_channel_that_is_gone_confirms_nothing(kept: Client, journal: Journal) -> None:
    assert kept.publish("", "a", delivery_mode=2) == ""
    assert kept.answers(ChannelClose(200, "")) == "channel.close-ok"
    journal.committed(journal.take_batch())
    assert kept.transcript() == ""


def test_cancelled_with_the_queue(client: Client) -> None:
    transcript(client, (CONSUME, "basic.consume-ok"), (QueueDelete(queue="q"), "queue.delete-ok basic.cancel"))
    client.declare("q")
    transcript(client, (CONSUME, "basic.consume-ok"))


def test_a_slow_reader_is_sent_no_more_than_it_has_room_for(client: Client) -> None:
    transcript(client, (CONSUME, "basic.consume-ok"))
    for _ in range(8):
        client.send(1, BasicPublish(routing_key="q"), bytes(1024 * 1024))
    queue = client.broker.vhosts["/"].queues["q"]
    assert (queue.message_count, queue.unacked) == (4, 4)  # room is 4 MiB, which the fourth goes beyond
    assert len(client.receive()) == 4
    assert (queue.message_count, queue.unacked) == (0, 8)
    assert len(client.receive()) == 4


def quorum(client: Client) -> None:
    client.ask(QueueDeclare(queue="t", durable=True, arguments=Table({"x-queue-type": "quorum"})))


def stream(client: Client) -> None:
    client.ask(QueueDeclare(queue="t", durable=True, arguments=Table({"x-queue-type": "stream"})))


T = "queue 't' in vhost '/'"


@pytest.mark.parametrize(
    ("make", "methods", "expected"),
    [
        (
            quorum,
            [BasicQos(0, 1, True), BasicConsume(queue="t")],
            f"connection 540 basic.consume NOT_IMPLEMENTED - {T} does not support global qos",
        ),
        (
            quorum,
            [QueueDelete(queue="t", if_unused=True)],
            f"connection 540 queue.delete NOT_IMPLEMENTED - cannot delete {T}. queue.delete operations with if-unused "
            "flag set are not supported by quorum queues",
        ),
        (
            stream,
            [BasicGet(queue="t")],
            f"connection 540 basic.get NOT_IMPLEMENTED - basic.get not supported by stream queues {T}",
        ),
        (
            stream,
            [BasicConsume(queue="t")],
            f"channel 406 basic.consume PRECONDITION_FAILED - consumer prefetch count is not set for '{T}'",
        ),
        (
            stream,
            [BasicQos(0, 1), BasicConsume(queue="t", arguments=Table({"x-priority": 1}))],
            f"channel 406 basic.consume PRECONDITION_FAILED - invalid arg 'x-priority' for {T} of queue type "
            "rabbit_stream_queue",
        ),
        (
            stream,
            [QueuePurge(queue="t")],
            f"connection 540 queue.purge NOT_IMPLEMENTED - queue.purge not supported by stream queues {T}",
        ),
    ],
)
def test_other_queue_types(
    client: Client, make: Callable[[Client], None], methods: list[Method], expected: str
) -> None:
    make(client)
    assert client.answers(*methods) == expected


def test_a_stream(client: Client) -> None:
    stream(client)
    fill(client, 3, "t")
    arguments = Table({"x-stream-offset": "first"})
    transcript(
        client,
        (BasicQos(0, 2), "basic.qos-ok"),
        (BasicConsume(queue="t", consumer_tag="c", arguments=arguments), "basic.consume-ok 1:0 2:1"),
        (BasicAck(2, True), "3:2"),
    )
    assert client.answers(BasicNack(3)) == (
        f"connection 540 basic.nack NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues {T}"
    )
    assert client.broker.vhosts["/"].queues["t"].unacked == 0


@pytest.mark.parametrize(
    ("arguments", "method", "shown"),
    [
        (b"\0\0\x05ab", BasicPublish, "<<0,0,5,97,98>>"),
        (b"", BasicPublish, "<<>>"),
        (b"\0\1", BasicAck, "<<0,1>>"),
        (b"\0\1", BasicReject, "<<0,1>>"),
    ],
)
def test_cut_short(client: Client, arguments: bytes, method: type[Method], shown: str) -> None:
    """What is read without the connection's help is refused in the same words."""
    client.feed(encode_frame(1, 1, method().encode()[:4] + arguments))
    assert client.transcript() == f"connection 501 {method.name} FRAME_ERROR - cannot decode {shown}"


def test_what_a_closed_channel_held_is_the_first_to_go_on(client: Client) -> None:
    """To the next consumer, before what came later."""
    client.declare("s", arguments={"x-single-active-consumer": True})
    fill(client, 2, "s")
    client.channel(2)
    for number in (1, 2):
        client.send(number, BasicQos(0, 1))
        client.send(number, BasicConsume(queue="s"))
    client.receive()
    client.send(1, ChannelClose(200, "bye"))
    assert got(client) == "1:0* channel.close-ok"
    client.send(2, BasicAck(1))
    assert got(client) == "2:1"


@pytest.mark.parametrize("is_polite", [True, False])
def test_what_a_channel_held_is_not_for_another_of_a_client_that_goes(client: Client, is_polite: bool) -> None:
    """A consumer that never acknowledges would have lost it."""
    client.channel(2)
    client.send(1, BasicConsume(queue="q"))
    fill(client, 1)
    client.send(2, BasicConsume(queue="q", no_ack=True))
    client.receive()
    if is_polite:
        client.send(0, ConnectionClose(200, "bye"))
    client.connection.lose(client.now)
    assert connected(client.broker).depth("q") == 1


def test_what_waited_in_a_queue_goes_with_it(client: Client) -> None:
    """Settling what was handed out before brings nothing more."""
    fill(client, 2)
    transcript(
        client,
        (BasicQos(0, 1), "basic.qos-ok"),
        (BasicConsume(queue="q", consumer_tag="c"), "basic.consume-ok 1:0"),
        (QueueDelete(queue="q"), "queue.delete-ok basic.cancel"),
        (BasicAck(1), ""),
    )


def test_what_is_left_of_a_stream_goes_with_it(client: Client) -> None:
    stream(client)
    fill(client, 2, "t")
    transcript(
        client,
        (BasicQos(0, 1), "basic.qos-ok"),
        (
            BasicConsume(queue="t", consumer_tag="c", arguments=Table({"x-stream-offset": "first"})),
            "basic.consume-ok 1:0",
        ),
        (QueueDelete(queue="t"), "queue.delete-ok basic.cancel"),
        (BasicAck(1), ""),
    )


def test_what_a_queue_that_goes_with_its_channel_would_get_back_is_no_dead_letter(client: Client) -> None:
    arguments = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    client.declare("a", auto_delete=True, arguments=arguments)
    client.ask(BasicConsume(queue="a"))
    fill(client, 1, "a")
    client.receive()
    client.ask(ChannelClose(200, "bye"))
    client.channel()
    assert client.depth("q") == 0
    assert "a" not in client.broker.vhosts["/"].queues


# --- answers, and the disk


class OnDisk:
    """A client of a broker that keeps what it has, and a disk that writes on demand."""

    def __init__(self) -> None:
        self.journal = Journal()
        broker = Broker()
        broker.use_storage(QueueStorage(self.journal, lambda log_number, position, limit: []))
        self.recorder = DefinitionRecorder(broker, self.journal)
        self.recorder.begin([])
        self.client = connected(broker)

    def write(self) -> str:
        """What is answered once all so far is written."""
        self.journal.committed(self.journal.take_batch())
        self.client.broker.work.go_on(self.client.now)
        return self.client.transcript()

    def furnish(self) -> None:
        for method in (
            QueueDeclare(queue="q", durable=True),
            ExchangeDeclare(exchange="x", durable=True),
            ExchangeDeclare(exchange="y", durable=True),
            QueueBind(queue="q", exchange="x", routing_key="there"),
            ExchangeBind(destination="y", source="x", routing_key="there"),
        ):
            self.client.send(1, method)
            self.write()


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="new", durable=True),
        ExchangeDeclare(exchange="new", durable=True),
        QueueBind(queue="q", exchange="x", routing_key="k"),
        QueueUnbind(queue="q", exchange="x", routing_key="there"),
        ExchangeBind(destination="y", source="x", routing_key="k"),
        ExchangeUnbind(destination="y", source="x", routing_key="there"),
        QueuePurge(queue="q"),
        QueueDelete(queue="q"),
        ExchangeDelete(exchange="y"),
    ],
)
def test_an_answer_comes_once_the_disk_has_it(method: Method) -> None:
    """And what the client asks for after it is done, and answered, after it."""
    disk = OnDisk()
    disk.furnish()
    client = disk.client
    client.send(1, method)
    client.send(1, BasicQos(0, 1))
    client.send(1, BasicPublish(exchange="nowhere"))
    assert client.transcript() == ""
    assert client.connection.is_behind
    assert disk.write() == f"{method.name}-ok · basic.qos-ok · {NOWHERE}"
    assert not client.connection.is_behind


def test_what_does_not_last_is_answered_at_once() -> None:
    """So is what was done before, and whatever has nothing to do with what there is."""
    disk = OnDisk()
    disk.furnish()
    client = disk.client
    disk.journal.message_log(LogOwner("queue", "/", "q")).enqueued(1, message())
    for method in (
        QueueDeclare(queue="q", durable=True),
        QueueDeclare(queue="t"),
        ExchangeDeclare(exchange="z"),
        QueueBind(queue="t", exchange="x"),
        QueueBind(queue="q", exchange="x", routing_key="there"),
        QueuePurge(queue="t"),
        QueueDelete(queue="t"),
    ):
        assert client.ask(method).name == f"{method.name}-ok"
    client.send(1, QueueDeclare(queue="new", durable=True, no_wait=True))
    assert client.ask(QueueDeclare(queue="t")).name == "queue.declare-ok"


def test_who_did_not_do_it_waits_for_it_too() -> None:
    disk = OnDisk()
    other = connected(disk.client.broker)
    for client in (disk.client, other):
        client.send(1, QueueDeclare(queue="q", durable=True))
        assert client.transcript() == ""
    disk.write()
    assert other.transcript() == "queue.declare-ok"


def test_consumers_are_cancelled_after_the_answer_to_a_deletion_however_long_that_takes() -> None:
    disk = OnDisk()
    disk.furnish()
    disk.client.ask(BasicConsume(queue="q"))
    disk.client.send(1, QueueDelete(queue="q"))
    assert disk.client.transcript() == ""
    assert disk.write() == "queue.delete-ok · basic.cancel"


@pytest.mark.parametrize("ends", ["lost", "closed"])
def test_a_connection_may_end_while_an_answer_waits(ends: str) -> None:
    disk = OnDisk()
    disk.furnish()
    client = disk.client
    client.send(1, QueueDeclare(queue="new", durable=True))
    if ends == "lost":
        client.connection.lose(client.now)
        assert disk.write() == "closed"
    else:
        client.connection.close("bye", client.now)
        assert client.transcript().startswith("connection 320")
        assert disk.write() == ""
    assert client.connection.channels == {}
