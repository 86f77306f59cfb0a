"""A session from attach to detach, as its client sees it."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    ExecutionSync,
    FileQos,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageTransfer,
    QueueDelete,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Control
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010

LAST_FRAME = 60


@pytest.fixture
def session() -> Session010:
    return Client010(Broker()).open().session()


def test_a_message_goes_from_one_end_to_the_other(session: Session010) -> None:
    session.declare("q")
    session.transfer(b"hello")
    session.subscribe("q", "d")
    ((position, transfer),) = session.messages
    assert (transfer.method.destination, transfer.body) == ("d", b"hello")
    assert transfer.properties.content_length == 5
    assert transfer.delivery_properties.routing_key == "q"
    assert session.client.broker.vhosts["/"].queues["q"].unacked == 1
    session.call(MessageAccept(SequenceSet.of([position])))
    assert session.client.broker.vhosts["/"].queues["q"].unacked == 0


def test_a_message_that_has_to_be_accepted_is(session: Session010) -> None:
    session.declare("q")
    command_id = session.transfer(b"x", accept_mode=0)
    session.take()
    assert session.others == [MessageAccept(SequenceSet.of([command_id]))]
    assert command_id in session.completed


def test_an_exception_ends_the_session_and_no_other(session: Session010) -> None:
    other = session.client.session(2, b"other")
    code, text = session.fault(QueueDelete("none"))
    assert code == 404
    assert "none" in text
    session.control(SessionDetached(session.name, 0))
    other.declare("q")
    again = session.client.session(1, session.name)
    again.declare("q2")


def test_what_is_not_implemented_is_540(session: Session010) -> None:
    assert session.fault(FileQos())[0] == 540


def test_release_and_reject_and_cancel(session: Session010) -> None:
    session.declare("q")
    session.transfer(b"one")
    session.subscribe("q", "d", messages=1)
    ((first, _),) = session.messages
    session.messages = []
    session.call(MessageRelease(SequenceSet.of([first]), True))
    session.send(MessageFlow("d", 0, 1))
    session.take()
    ((second, again),) = session.messages
    assert again.delivery_properties.redelivered
    session.call(MessageReject(SequenceSet.of([second]), 0))
    session.call(MessageCancel("d"))
    assert session.call(QueueQuery("q")).message_count == 0


def test_tx(session: Session010) -> None:
    session.declare("q")
    session.call(TxSelect())
    session.transfer(b"lost")
    session.call(TxRollback())
    session.transfer(b"kept")
    assert session.call(QueueQuery("q")).message_count == 0
    session.call(TxCommit())
    assert session.call(QueueQuery("q")).message_count == 1


def test_sync_and_flush(session: Session010) -> None:
    session.declare("q")
    session.call(ExecutionSync())
    session.control(SessionFlush(True, True, True))
    assert session.client.names() == ["session.expected", "session.confirmed", "session.completed"]


def test_many_flushes_are_answered_once(session: Session010) -> None:
    flushes = [SessionFlush(confirmed=True), SessionFlush(completed=True), SessionFlush(confirmed=True)]
    session.client.feed(b"".join(encode_method(1, each) for each in flushes))
    assert session.client.names() == ["session.confirmed", "session.completed"]
    session.control(SessionFlush(confirmed=True))
    assert session.client.names() == ["session.confirmed"]


def test_a_completion_is_answered_where_that_is_asked_for(session: Session010) -> None:
    session.declare("q")
    session.subscribe("q", "d")
    session.transfer(b"body")
    session.take()
    received = SequenceSet([(session.came - 1, session.came - 1)])
    session.control(SessionCompleted(received))
    assert session.client.names() == []
    session.control(SessionCompleted(received, timely_reply=True))
    assert session.client.names() == ["session.known-completed"]


def test_detach_and_attach(session: Session010) -> None:
    session.control(SessionAttach(b"s"))
    assert session.client.names() == ["session.attached"]
    session.control(SessionDetach(b"s"))
    assert session.client.names() == ["session.detached"]
    session.control(SessionDetach(b"s"))
    assert session.client.names() == ["session.detached"]


def test_ranges_are_bounded_however_a_client_cuts_them(session: Session010) -> None:
    count = 3 * MAX_RANGES
    session.client.feed(b"".join(encode_method(1, ExecutionSync()) for _ in range(count)))
    session.take()
    for start in range(0, count, MAX_RANGES):
        odd = [(number, number) for number in range(start + 1, min(start + MAX_RANGES, count), 2)]
        session.control(SessionKnownCompleted(SequenceSet(odd)))
    session.take()
    session.completed = set()
    session.control(SessionFlush(completed=True))
    session.take()
    assert session.client.connection.channels[1].completions.ranges == MAX_RANGES
    assert MAX_RANGES <= len(session.completed) < count / 2


def test_completion_of_everything_many_times_over_costs_little(session: Session010) -> None:
    session.declare("q")
    for number in range(200):
        session.transfer(b"%d" % number)
    session.subscribe("q", "d", messages=100)
    everything = SequenceSet([(0, 0x7FFF_FFFF)] * MAX_RANGES)
    session.control(SessionCompleted(everything))
    assert len(session.got()) == 200


@pytest.mark.parametrize("control", [SessionGap(SequenceSet.of([1])), SessionCommandPoint(2, 0)])
def test_a_command_that_is_cut_is_not_done_and_the_next_is(session: Session010, control: Control) -> None:
    session.declare("q")
    assert session.sent == 1
    session.client.feed(_transfer(1, b"x" * 100)[:-LAST_FRAME])
    session.control(control)
    session.sent = 2
    session.client.feed(_transfer(1, b"y" * 100))
    session.sent = 3
    session.subscribe("q", "d")
    assert session.got() == [b"y" * 100]
    assert (1 in session.completed) is isinstance(control, SessionGap)


def test_the_rest_of_a_command_that_was_cut_closes_the_connection(session: Session010) -> None:
    data = _transfer(1, b"x" * 100)
    other = Client010(session.client.broker).open().session(1, b"other")
    session.client.feed(data[:-LAST_FRAME])
    session.control(SessionGap(SequenceSet.of([0])))
    session.client.feed(data[-LAST_FRAME:])
    assert session.client.names() == ["session.completed", "connection.close"]
    other.declare("q")


def test_a_gap_that_covers_what_was_done_leaves_it_done(session: Session010) -> None:
    session.declare("q")
    session.transfer(b"x")
    session.control(SessionGap(SequenceSet([(0, 1)])))
    assert session.call(QueueQuery("q")).message_count == 1


def test_after_a_gap_in_what_is_sent_again_the_next_command_is_the_one_behind_it(session: Session010) -> None:
    session.declare("q")
    for number in range(4):
        session.transfer(b"%d" % number)
    session.control(SessionCommandPoint(1, 0))
    session.client.feed(_transfer(1, b"x" * 100)[:-LAST_FRAME])
    session.control(SessionGap(SequenceSet.of([1])))
    for number in range(1, 4):  # were done before
        session.client.feed(_transfer(1, b"%d" % number))
    assert session.call(QueueQuery("q")).message_count == 4


def _transfer(channel: int, body: bytes) -> bytes:
    """Of several frames, of which the last has `LAST_FRAME` bytes."""
    header = Header((DeliveryProperties(routing_key="q"),))
    return Assembly(channel, MessageTransfer("", 1, 0), header, body).encode(64)
