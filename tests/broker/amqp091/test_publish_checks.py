"""What a publish must be like, and what becomes of it: each answer is RabbitMQ 3.10's."""

from typing import Any

import pytest

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicGet,
    BasicPublish,
    ConfirmSelect,
    ExchangeDeclare,
    QueueDelete,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import EVERYTHING, Broker
from tests.broker.client import connected

FAILED = "channel 406 basic.publish PRECONDITION_FAILED -"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"user_id": "guest"}, ""),
        (
            {"user_id": "nobody"},
            f"{FAILED} user_id property set to 'nobody' but authenticated user was 'guest'",
        ),
        ({"expiration": "60000"}, ""),
        ({"expiration": "+5"}, ""),
        ({"expiration": "315360000000"}, ""),
        ({"expiration": "soon"}, f"{FAILED} invalid expiration 'soon': no_integer"),
        ({"expiration": ""}, f"{FAILED} invalid expiration '': no_integer"),
        ({"expiration": " 5"}, f"{FAILED} invalid expiration ' 5': no_integer"),
        ({"expiration": "-1"}, f"{FAILED} invalid expiration '-1': {{value_negative,-1}}"),
        ({"expiration": "1.5"}, f"{FAILED} invalid expiration '1.5': {{leftover_string,\".5\"}}"),
        (
            {"expiration": "1099511627776"},
            f"{FAILED} invalid expiration '1099511627776': {{value_too_large,1099511627776}}",
        ),
        ({"delivery_mode": 7}, f"{FAILED} invalid message: {{delivery_mode_unknown,7}}"),
        (
            {"headers": {"CC": "k"}},
            f'{FAILED} invalid message: {{unacceptable_type_in_header,"CC",longstr}}',
        ),
        (
            {"headers": {"BCC": 1}},
            f'{FAILED} invalid message: {{unacceptable_type_in_header,"BCC",signedint}}',
        ),
        (
            {"headers": {"CC": None}},
            f'{FAILED} invalid message: {{unacceptable_type_in_header,"CC",void}}',
        ),
        ({"headers": {"CC": [1, "a"]}}, ""),
        ({"reply_to": "amq.rabbitmq.reply-to"}, f"{FAILED} fast reply consumer does not exist"),
        ({"reply_to": "amq.rabbitmq.reply-to.mine"}, ""),
    ],
)
def test_properties(properties: dict[str, Any], expected: str) -> None:
    assert connected().publish("", "k", **properties) == expected


def test_exchanges_that_take_nothing() -> None:
    client = connected()
    assert client.publish("nil", "k") == "channel 404 basic.publish NOT_FOUND - no exchange 'nil' in vhost '/'"
    client.channel()
    client.ask(ExchangeDeclare(exchange="inner", internal=True))
    refused = "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"
    assert client.publish("inner", "k") == f"channel 403 basic.publish {refused}"


def test_immediate() -> None:
    client = connected()
    client.send(1, BasicPublish(exchange="nil", immediate=True))
    assert client.transcript() == "connection 540 basic.publish NOT_IMPLEMENTED - immediate=true"


def test_an_impersonator_may_name_any_user() -> None:
    broker = Broker()
    user = User.with_password("proxy", "p", ["impersonator"])
    user.permit("/", EVERYTHING)
    broker.add_user(user)
    assert connected(broker, user="proxy", password="p").publish("", "k", user_id="other") == ""


def test_a_body_over_the_limit_is_skipped_and_refused() -> None:
    client = connected(Broker(max_message_size=10_000))
    client.declare("q")
    assert client.publish("", "q", bytes(10_000)) == ""
    assert client.publish("", "q", bytes(10_001)) == (
        f"{FAILED} message size 10001 is larger than configured max size 10000"
    )
    client.channel()
    assert client.depth("q") == 1


def test_malformed_properties_are_an_internal_error() -> None:
    client = connected()
    header = ContentHeader(0).encode()[:12] + b"\x80\x00"
    client.feed(encode_method(1, BasicPublish(routing_key="k")) + encode_frame(2, 1, header))
    assert client.transcript() == "connection 541 0.0 INTERNAL_ERROR"


@pytest.mark.parametrize(
    ("headers", "queues", "seen"),
    [
        ({"CC": ["b", "a"]}, {"a": 1, "b": 1, "c": 0}, {"CC": ["b", "a"]}),
        ({"BCC": ["c"]}, {"a": 1, "b": 0, "c": 1}, {}),
        ({"CC": ["b"], "BCC": ["c", "nil"], "z": 1}, {"a": 1, "b": 1, "c": 1}, {"CC": ["b"], "z": 1}),
    ],
)
def test_copies(headers: dict[str, Any], queues: dict[str, int], seen: dict[str, Any]) -> None:
    client = connected()
    for queue in queues:
        client.declare(queue)
    client.publish("", "a", headers=headers)
    assert {queue: client.depth(queue) for queue in queues} == queues
    client.send(1, BasicGet(queue="a"))
    (received,) = client.receive()
    assert received.properties.headers == Table(seen)
    assert received.method.routing_key == "a"


def test_a_return_has_no_bcc_and_comes_before_the_ack() -> None:
    client = connected()
    client.ask(ConfirmSelect())
    client.send(1, BasicPublish(routing_key="nil", mandatory=True), b"x", headers={"BCC": ["b"]})
    returned, ack = client.receive()
    assert (returned.method.name, ack.method.name) == ("basic.return", "basic.ack")
    assert returned.body == b"x"
    assert returned.properties.headers == {}


def test_a_publish_that_is_refused_is_not_confirmed_and_those_before_it_are() -> None:
    client = connected()
    client.ask(ConfirmSelect())
    for exchange in ("", "", "nil"):
        client.feed(encode_method(1, BasicPublish(exchange=exchange)) + encode_frame(2, 1, ContentHeader(0).encode()))
    acks = [each.method for each in client.receive()]
    assert [each.name for each in acks] == ["basic.ack", "basic.ack", "channel.close"]


def test_a_transaction_routes_at_once_and_delivers_at_its_end() -> None:
    client = connected()
    client.declare("q")
    client.declare("gone")
    client.ask(TxSelect())
    assert client.publish("", "q") == client.publish("", "gone") == client.publish("", "nil", mandatory=True) == ""
    assert client.depth("q") == 0
    client.ask(QueueDelete(queue="gone"))
    assert client.answers(TxCommit()) == "basic.return · tx.commit-ok"
    assert client.depth("q") == 1


def test_a_transaction_refuses_at_once() -> None:
    client = connected()
    client.ask(TxSelect())
    assert client.publish("nil", "k") == "channel 404 basic.publish NOT_FOUND - no exchange 'nil' in vhost '/'"
