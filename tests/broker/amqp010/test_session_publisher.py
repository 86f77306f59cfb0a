"""A client's transfers: checked, routed, returned, and completed once they are durable."""

from __future__ import annotations

import gc
import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.commands import (
    ExecutionSync,
    MessageAccept,
    MessageReject,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
)
from amqproxy.amqp010.domains import RejectCode
from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_SEGMENT, HEADER, LAST_SEGMENT, decode_header, encode_segment
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicConsume, BasicGet, BasicGetOk, BasicPublish
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010 import session_publisher
from amqproxy.broker.amqp010.session_publisher import AT_ONCE, MOST_BYTES
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010
from tests.broker.amqp010.header_samples import content_header_of, header_of_jms, headers
from tests.broker.client import Client


def attached(broker: Broker | None = None) -> Session010:
    session = Client010(broker or Broker()).open().session()
    session.declare("q")
    return session


def test_what_no_queue_takes_is_rejected_where_it_has_to_be_accepted() -> None:
    session = attached()
    command_id = session.transfer(b"x", "nowhere", accept_mode=0)
    session.take()
    assert session.others == [
        MessageReject(SequenceSet.of([command_id]), RejectCode.UNROUTABLE, "no queue is bound for it")
    ]
    assert command_id in session.completed
    session.others = []
    session.transfer(b"x", "nowhere")
    properties = DeliveryProperties(routing_key="nowhere", discard_unroutable=True)
    session.transfer(b"x", accept_mode=0, delivery=properties)
    session.take()
    assert [type(each).__name__ for each in session.others] == ["MessageAccept"]


def test_a_message_for_very_many_queues_is_complete_once() -> None:
    session = attached()
    for number in range(AT_ONCE + 6):
        session.declare(f"q{number}")
        session.bind(f"q{number}", "amq.fanout")
    command_id = session.transfer(b"x", exchange="amq.fanout", accept_mode=0)
    assert command_id in session.take().completed
    assert session.others == [MessageAccept(SequenceSet.of([command_id]))]
    session.call(ExecutionSync())
    assert session.call(QueueQuery("q7")).message_count == 1


def test_a_queue_that_is_full_refuses() -> None:
    session = attached()
    session.call(QueueDeclare("one", arguments=Map({"qpid.max_count": 1})))
    session.transfer(b"1", "one")
    session.take()
    assert session.fault(MessageTransfer("", 1, 0), Header((DeliveryProperties(routing_key="one"),)), b"2")[0] == 506


def test_faults() -> None:
    for destination, entries, code in (
        ("none", (), 404),
        ("amq.rabbitmq.trace", (), 530),
        ("", (MessageProperties(user_id=b"other"),), 403),
        ("", (DeliveryProperties(ttl=1 << 62),), 542),
        ("none", (FragmentProperties(True, False),), 404),
    ):
        assert attached().fault(MessageTransfer(destination, 1, 0), Header(entries), b"")[0] == code


def test_a_user_that_may_not_write() -> None:
    broker = Broker()
    broker.add_user(user := User.with_password("ann", "secret"))
    user.permit("/", Permission(".*", "", ".*"))
    session = Client010(broker).open(user="ann", password="secret").session()
    assert session.fault(MessageTransfer("", 1, 0))[0] == 403


@pytest.mark.parametrize("is_own", [False, True])
def test_a_user_that_may_no_longer_say_that_it_is_another(is_own: bool) -> None:
    session = attached()
    user = session.client.broker.users["guest"]
    user.set_tags(["impersonator"])
    message_id = UUID(int=1) if is_own else None
    header = Header((DeliveryProperties(routing_key="q"), MessageProperties(message_id=message_id, user_id=b"other")))
    for _ in range(4):
        session.send(MessageTransfer("", 1, 0), header, b"")
    assert session.call(QueueQuery("q")).message_count == 4
    user.set_tags([])
    assert session.fault(MessageTransfer("", 1, 0), header, b"")[0] == 403


def test_what_is_larger_than_allowed() -> None:
    session = attached(Broker(max_message_size=100))
    assert session.fault(MessageTransfer("", 1, 0), None, bytes(101))[0] == 506


def test_a_header_that_no_frame_of_0_9_1_could_hold_is_refused() -> None:
    header = Header((MessageProperties(application_headers=Map({str(number): "x" * 50_000 for number in range(3)})),))
    assert attached().fault(MessageTransfer("", 1, 0), header, b"")[0] == 506
    session = attached(Broker(frame_max=0))
    session.bind("q", "amq.fanout")
    session.send(MessageTransfer("amq.fanout"), header, b"there is no limit")
    session.subscribe("q", "d")
    assert session.got() == [b"there is no limit"]


def test_a_large_message_in_many_frames_goes_both_ways() -> None:
    session = attached()
    session.transfer(bytes(200_000))
    session.subscribe("q", "d")
    assert session.got() == [bytes(200_000)]


def test_a_transfer_without_header_or_body() -> None:
    session = attached()
    session.bind("q", "amq.fanout")
    session.send(MessageTransfer("amq.fanout", 1, 0))
    session.send(MessageTransfer("amq.fanout"), None, b"no header")
    session.subscribe("q", "d")
    assert session.got() == [b"", b"no header"]


def test_from_0_9_1_to_0_10_and_back() -> None:
    session = attached()
    old = Client(session.client.broker).open()
    old.channel()
    old.send(1, BasicPublish(routing_key="q"), b"hello", content_type="text/plain", correlation_id="c", reply_to="r")
    session.subscribe("q", "d", accept_mode=1)
    ((_, transfer),) = session.messages
    assert transfer.body == b"hello"
    assert (transfer.properties.content_type, transfer.properties.correlation_id) == ("text/plain", b"c")
    assert transfer.properties.reply_to.routing_key == "r"
    session.declare("back")
    properties = MessageProperties(content_type="text/plain", application_headers=Map({"k": "v"}))
    session.transfer(b"hi", "back", message=properties)
    session.take()
    old.send(1, BasicGet(queue="back", no_ack=True))
    (got,) = old.receive()
    assert isinstance(got.method, BasicGetOk)
    assert (got.body, got.properties.content_type, dict(got.properties.headers or {})) == (
        b"hi",
        "text/plain",
        {"k": "v"},
    )


def test_an_answer_to_a_direct_reply_to() -> None:
    session = attached()
    old = Client(session.client.broker).open()
    old.channel()
    old.send(1, BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
    old.receive()
    old.send(1, BasicPublish(routing_key="q"), b"ask", reply_to="amq.rabbitmq.reply-to")
    session.subscribe("q", "d", accept_mode=1)
    ((_, transfer),) = session.messages
    session.transfer(b"answer", transfer.properties.reply_to.routing_key)
    session.take()
    assert [each.body for each in old.receive() if each.body] == [b"answer"]


def data_of(header: bytes, body: bytes, frame_max: int = 65_535, accept_mode: int = 1) -> bytes:
    """A transfer, whose header need not be one that we would write."""
    segments = [(COMMAND, MessageTransfer("", accept_mode, 0).encode()), (HEADER, header), (BODY, body)]
    return b"".join(
        [
            encode_segment(flags, kind, 1, payload, frame_max)
            for flags, (kind, payload) in zip((FIRST_SEGMENT, 0, LAST_SEGMENT), segments, strict=True)
        ]
    )


kept = st.tuples(headers, st.binary(max_size=20), st.sampled_from([0, 1]), st.sampled_from([65_535, 40]))


@given(st.lists(kept, max_size=12), st.sampled_from([7, 100, 1000, 10_000]))
def test_transfers_that_are_known_come_to_what_others_do(
    transfers: list[tuple[bytes, bytes, int, int]], step: int
) -> None:
    session = attached()
    data = b"".join([data_of(header, body, most, mode) for header, body, mode, most in transfers])
    for start in range(0, len(data), step):
        session.client.feed(data[start : start + step])
    taken = session.take()
    assert taken.exception is None
    assert len(taken.completed) == len(transfers) + 1
    answers = {"MessageAccept": 0, "MessageReject": 0}
    for each in taken.others:
        if isinstance(each, MessageAccept | MessageReject) and each.transfers is not None:
            answers[type(each).__name__] += each.transfers.count
    explicit = [decode_header(each[0]) for each in transfers if each[2] == 0]
    is_lost = [each.delivery is None or each.delivery.routing_key != "q" for each in explicit]
    assert answers == {"MessageAccept": is_lost.count(False), "MessageReject": is_lost.count(True)}
    queue = session.client.broker.vhosts["/"].queues["q"]
    for header, body, _, _ in transfers:
        delivery = decode_header(header).delivery
        if delivery is None or delivery.routing_key != "q":
            continue
        entry = queue.get(0.0)
        assert entry is not None
        assert entry.message.header == content_header_of(header, len(body))
        assert (entry.message.body, entry.message.routing_key, entry.message.exchange) == (body, "q", "")
    assert queue.get(0.0) is None


def test_what_is_known_counts_for_as_long_as_nothing_changes() -> None:
    session = attached()
    headers = [header_of_jms(number).encode() for number in range(8)]

    def transfer(*numbers: int) -> None:
        session.client.feed(b"".join([data_of(headers[number], b"x") for number in numbers]))
        session.sent += len(numbers)

    transfer(0, 1, 2)
    session.call(QueueDelete("q"))
    transfer(3)
    session.declare("q")
    transfer(4, 5)
    assert session.call(QueueQuery("q")).message_count == 2
    session.client.broker.users["guest"].permit("/", Permission(".*", "", ".*"))
    transfer(6)
    session.take()
    assert session.exception is not None
    assert session.exception.error_code == 403


def test_a_body_that_is_too_large_is_refused_though_its_like_is_known() -> None:
    broker = Broker(max_message_size=4)
    session = attached(broker)
    header = header_of_jms(1).encode()
    for size in (4, 4, 4, 5):
        session.client.feed(data_of(header, bytes(size)))
    session.take()
    assert session.exception is not None
    assert session.exception.error_code == 506
    assert broker.vhosts["/"].queues["q"].message_count == 3


def test_known_transfers_in_turns_and_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (2, 64):
        monkeypatch.setattr(session_publisher, "MOST", most)
        session = attached()
        for key in "ab":
            session.declare(key)
        for number in range(12):
            for key in "qab":
                session.client.feed(data_of(header_of_jms(number, key).encode(), key.encode()))
                session.sent += 1
        for key in "qab":
            assert session.call(QueueQuery(key)).message_count == 12
            queue = session.client.broker.vhosts["/"].queues[key]
            for number in range(12):
                entry = queue.get(0.0)
                assert entry is not None
                assert entry.message.header == content_header_of(header_of_jms(number, key).encode(), 1)
                assert entry.message.body == key.encode()


def test_what_comes_once_is_not_kept() -> None:
    """Where all headers are different, as with a number of the client's in each, little is known of each."""
    session = attached()
    tracemalloc.start()
    try:
        for number in range(64):
            names = Map({f"{number:04}{place}" * 3: "value" for place in range(16)})
            session.transfer(b"", message=MessageProperties(application_headers=names))
            if not number:
                before = tracemalloc.get_traced_memory()[0]
        session.call(QueuePurge("q"))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 64 * 4096
    finally:
        tracemalloc.stop()


def test_what_is_known_is_bounded_in_bytes() -> None:
    """Large headers that come again and again, and which decoded are many times as large."""
    session = attached()
    tracemalloc.start()
    try:
        for number in range(66):
            names = Map({f"{number:02}{place:02}": 1 for place in range(45)})
            for _ in range(2):
                session.transfer(b"", message=MessageProperties(application_headers=names))
            if not number:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
            session.call(QueuePurge("q"))
            if number > 60:
                gc.collect()
                assert tracemalloc.get_traced_memory()[0] - before < 2 * MOST_BYTES
    finally:
        tracemalloc.stop()
