"""Publishing: what comes back, who else gets a copy, and what of a message the broker looks at."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicGet, BasicGetOk, BasicPublish, BasicReturn, QueueDelete
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Field, Item, Table
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel, frame, plain, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

# ------------------------------------------------------------------------------------------------- what arrives

PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {
        "text": "é",
        "number": 1,
        "large": 2**40,
        "yes": True,
        "nothing": None,
        "fraction": 1.5,
        "bytes": b"\xff\0",
        "list": [1, "2", [3]],
        "table": {"in": {"side": 1}},
        "": "unnamed",
    },
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1234567890,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "k",
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_each_property_arrives(ch: Channel, q: str, name: str) -> None:
    ch.publish("", q, b"body", **{name: PROPERTIES[name]})
    received = ch.get(q)
    assert received
    assert plain(received.properties.present()) == {name: PROPERTIES[name]}
    assert received.body == b"body"


def test_all_properties_arrive(ch: Channel, q: str) -> None:
    ch.publish("", q, **PROPERTIES)
    received = ch.get(q)
    assert received
    assert plain(received.properties.present()) == PROPERTIES


def test_wire_types_of_headers_arrive(ch: Channel, q: str) -> None:
    sent = {letter: Item(letter, 1) for letter in "bBsuIil"} | {
        "T": Item("T", 1),
        "f": Item("f", 0.5),
        "d": Item("d", 1.5),
    }
    ch.publish("", q, headers=sent)
    received = ch.get(q)
    assert received
    assert received.properties.headers is not None
    arrived = {field.name: (field.type, field.value) for field in received.properties.headers.fields}
    assert arrived == {name: (item.type, item.value) for name, item in sent.items()}


@pytest.mark.parametrize("size", [0, 1, 131063, 131064, 131065, 262128, 1_000_000])
def test_bodies_of_any_size(ch: Channel, q: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    ch.publish("", q, body[:size])
    received = ch.get(q)
    assert received
    assert received.body == body[:size]


def test_body_frames_of_any_cut(ch: Channel, q: str) -> None:
    """A peer may cut a body as it likes, even into empty frames."""
    data = frame(1, ch.number, BasicPublish(routing_key=q).encode())
    data += frame(2, ch.number, ContentHeader(5).encode())
    for piece in (b"a", b"", b"bc", b"de"):
        data += frame(3, ch.number, piece)
    ch.client.send_bytes(data)
    assert ch.drain(q) == [b"abcde"]


def test_get_ok_counts_what_is_left(ch: Channel, q: str) -> None:
    for _ in range(3):
        ch.publish("", q)
    counts = []
    for _ in range(3):
        ch.send(BasicGet(queue=q, no_ack=True))
        counts.append(ch.expect(BasicGetOk).method.message_count)
    assert counts == [2, 1, 0]


# ----------------------------------------------------------------------------------------------------- mandatory


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("times", [1, 2])
def test_the_order_of_headers(scene: Scene, ch: Channel, queue_type: str, times: int) -> None:
    """Messages with equal headers are alike. RabbitMQ 3 sorts those to which it adds one."""
    queue = ch.declare(scene.q, durable=True, arguments={"x-queue-type": queue_type})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    inner = Table([Field("z", "S", "inner"), Field("a", "S", "inner")])
    sent = [Field("z", "F", inner), Field("a", "S", "1"), Field("B", "t", True), Field("a", "I", 2)]
    for _ in range(times):
        ch.publish("", queue, headers=Table(sent), message_id="m")
    expected = [sent[2], sent[1], sent[0]] if scene.profile.sorts_headers else sent
    if queue_type == "quorum" and not scene.profile.sorts_headers:
        expected = [sent[2], sent[1], sent[3], sent[0]]
    for _ in range(times):
        got = until(lambda: ch.get(queue), "the message")
        found = [field for field in got.properties.headers.fields if field.name != "x-delivery-count"]
        assert [(field.name, field.type, field.value) for field in found] == [
            (field.name, field.type, field.value) for field in expected
        ]


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.fanout", "amq.topic", "amq.headers"])
def test_mandatory_comes_back(scene: Scene, ch: Channel, exchange: str) -> None:
    key = scene.q
    ch.publish(exchange, key, b"body", mandatory=True, message_id="m", headers={"a": 1})
    returned = ch.expect(BasicReturn, reply_code=312, reply_text="NO_ROUTE", exchange=exchange, routing_key=key)
    assert returned.body == b"body"
    assert plain(returned.properties.present()) == {"message_id": "m", "headers": {"a": 1}}


def test_mandatory_with_somewhere_to_go(ch: Channel, q: str) -> None:
    ch.publish("", q, b"body", mandatory=True)
    assert ch.drain(q) == [b"body"]
    ch.expect_nothing()


def test_without_mandatory_nothing_comes_back(scene: Scene, ch: Channel) -> None:
    ch.publish("", scene.q)
    ch.expect_nothing()


def test_a_queue_that_is_gone_is_nowhere(ch: Channel, q: str) -> None:
    ch.call(QueueDelete(queue=q))
    ch.publish("", q, mandatory=True)
    ch.expect(BasicReturn, routing_key=q)


def test_mandatory_is_content_with_an_alternate(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x2, "fanout")
    ch.exchange(scene.x, arguments={"alternate-exchange": scene.x2})
    ch.bind(q, scene.x2)
    ch.publish(scene.x, "k", b"body", mandatory=True)
    assert ch.drain(q) == [b"body"]
    ch.expect_nothing()


def test_a_full_queue_is_somewhere(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-max-length": 0})
    ch.publish("", queue, mandatory=True)
    ch.expect_nothing(queue)


# ------------------------------------------------------------------------------------------------------ CC and BCC


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies(ch: Channel, header: str) -> None:
    queues = [ch.declare(exclusive=True) for _ in range(3)]
    ch.publish("", queues[0], b"body", headers={header: queues[1:], "kept": 1})
    for queue in queues:
        received = ch.get(queue)
        assert received
        assert received.body == b"body"
        assert received.headers == ({"kept": 1} if header == "BCC" else {"CC": queues[1:], "kept": 1})
        assert received.method.routing_key == queues[0]


def test_bcc_alone_leaves_empty_headers(ch: Channel, q: str) -> None:
    ch.publish("", q, headers={"BCC": [q]})
    received = ch.get(q)
    assert received
    assert plain(received.properties.headers) == {}


def test_one_copy_a_queue(ch: Channel, q: str) -> None:
    ch.publish("", q, b"once", headers={"CC": [q, q], "BCC": [q]})
    assert ch.drain(q) == [b"once"]


def test_copies_through_every_exchange(ch: Channel, q: str) -> None:
    ch.bind(q, "amq.topic", "a.*")
    ch.publish("amq.topic", "x", b"copy", headers={"CC": ["a.b"]})
    assert ch.drain(q) == [b"copy"]


def test_mandatory_looks_at_copies(ch: Channel, q: str) -> None:
    ch.publish("", "nowhere", mandatory=True, headers={"BCC": [q]})
    ch.expect_nothing(q)
    ch.publish("", "nowhere", mandatory=True, headers={"BCC": ["nowhere too"]})
    assert ch.expect(BasicReturn, routing_key="nowhere").headers == {}


def test_no_copies(ch: Channel, q: str) -> None:
    ch.publish("", q, b"body", headers={"CC": [], "BCC": []})
    received = ch.get(q)
    assert received
    assert received.headers == {"CC": []}


# ---------------------------------------------------------------------------------------------- user-id, expiration


def test_own_user_id(ch: Channel, q: str) -> None:
    ch.publish("", q, user_id="guest")
    received = ch.get(q)
    assert received
    assert received.properties.user_id == "guest"


@pytest.mark.parametrize("expiration", ["60000", "0060000", "4294967295"])
def test_expirations_that_are_taken(ch: Channel, q: str, expiration: str, profile: Profile) -> None:
    ch.publish("", q, expiration=expiration)
    received = ch.get(q)
    assert received
    assert received.properties.expiration == (str(int(expiration)) if profile.rewrites_expiration else expiration)


def test_an_expiration_of_zero_is_gone_at_once(ch: Channel, q: str) -> None:
    ch.publish("", q, expiration="0")
    assert ch.drain(q) == []


def test_messages_keep_their_order(ch: Channel, q: str) -> None:
    bodies = [b"%d" % number for number in range(200)]
    for body in bodies:
        ch.publish("", q, body)
    assert ch.drain(q) == bodies
