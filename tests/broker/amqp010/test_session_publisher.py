"""What a client transfers: checked, routed, returned, and completed once it is safe."""

from __future__ import annotations

from amqproxy.amqp010.commands import (
    ExecutionSync,
    MessageAccept,
    MessageReject,
    MessageTransfer,
    QueueDeclare,
    QueueQuery,
)
from amqproxy.amqp010.domains import RejectCode
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicConsume, BasicGet, BasicGetOk, BasicPublish
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010.session_publisher import AT_ONCE
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010
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
