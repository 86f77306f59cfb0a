"""Direct reply-to: each answer is RabbitMQ 3.10's."""

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    ChannelClose,
    ConfirmSelect,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from amqproxy.broker.amqp091.direct_reply_to import NAME, is_reply_name
from amqproxy.broker.broker import Broker
from tests.broker.client import Client, connected

CONSUME = BasicConsume(queue=NAME, consumer_tag="c", no_ack=True)
NO_QUEUE = "NOT_FOUND - no queue '{}' in vhost '/'"


def asked(broker: Broker) -> tuple[Client, Client, str]:
    """One that has asked, one that has the question, and where the answer is to go."""
    client, server = connected(broker), connected(broker)
    server.declare("rpc")
    client.ask(CONSUME)
    assert client.publish("", "rpc", b"?", reply_to=NAME, correlation_id="5") == ""
    server.send(1, BasicGet(queue="rpc", no_ack=True))
    (question,) = server.receive()
    assert question.properties.correlation_id == "5"
    return client, server, question.properties.reply_to or ""


def test_an_answer() -> None:
    client, server, name = asked(Broker())
    assert name.startswith(NAME + ".")
    server.ask(ConfirmSelect())
    assert server.publish("", name, b"!", correlation_id="5") == "basic.ack"
    (answer,) = client.receive()
    assert (answer.body, answer.properties.correlation_id) == (b"!", "5")
    method = answer.method
    assert (method.consumer_tag, method.delivery_tag, method.exchange, method.routing_key) == ("c", 1, "", name)


def test_a_mandatory_answer_arrives_and_is_returned_too() -> None:
    client, server, name = asked(Broker())
    assert server.publish("", name, mandatory=True) == "basic.return"
    assert client.transcript() == "basic.deliver"


def test_an_answer_by_copy() -> None:
    client, server, name = asked(Broker())
    server.publish("", "nowhere", headers={"BCC": [name]})
    assert client.transcript() == "basic.deliver"


def test_one_can_ask_whether_a_client_waits() -> None:
    client, server, name = asked(Broker())
    answer = server.ask(QueueDeclare(queue=name, passive=True))
    assert (answer.queue, answer.message_count, answer.consumer_count) == (name, 0, 1)
    assert server.answers(QueueDeclare(queue=name)) == "queue.declare-ok"
    client.ask(BasicCancel("c"))
    assert server.answers(QueueDeclare(queue=name)) == f"channel 404 queue.declare {NO_QUEUE.format(name)}"
    server.channel()
    assert server.publish("", name, mandatory=True) == "basic.return"
    assert client.transcript() == ""


@pytest.mark.parametrize("end", [lambda c: c.ask(ChannelClose()), lambda c: c.connection.lose(c.now)])
def test_no_client_waits_any_more(end: object) -> None:
    client, server, name = asked(Broker())
    assert callable(end)
    end(client)
    assert server.publish("", name, mandatory=True) == "basic.return"
    assert not client.broker.vhosts["/"].reply_consumers


def test_a_channel_keeps_its_name() -> None:
    client, server, name = asked(Broker())
    client.ask(BasicCancel("c"))
    client.ask(CONSUME)
    server.publish("", name)
    assert client.transcript() == "basic.deliver"


def test_another_channel_cannot_ask_by_it() -> None:
    client, _, _ = asked(Broker())
    client.channel(2)
    expected = "channel 406 basic.publish PRECONDITION_FAILED - fast reply consumer does not exist"
    assert client.publish("", "rpc", reply_to=NAME, channel=2) == expected


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([CONSUME], "basic.consume-ok"),
        ([CONSUME, BasicCancel("c"), CONSUME], "basic.consume-ok"),
        (
            [BasicConsume(queue=NAME)],
            "channel 406 basic.consume PRECONDITION_FAILED - reply consumer cannot acknowledge",
        ),
        (
            [CONSUME, BasicConsume(queue=NAME, no_ack=True)],
            "channel 406 basic.consume PRECONDITION_FAILED - reply consumer already set",
        ),
        (
            [QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="c"), CONSUME],
            "connection 530 basic.consume NOT_ALLOWED - attempt to reuse consumer tag 'c'",
        ),
        (
            [BasicConsume(queue=NAME + ".x", no_ack=True)],
            f"channel 404 basic.consume {NO_QUEUE.format(NAME + '.x')}",
        ),
        ([QueueDeclare(queue=NAME)], "queue.declare-ok"),
        ([QueueDeclare(queue=NAME, passive=True)], "queue.declare-ok"),
        ([QueueDeclare(queue=NAME + ".x")], f"channel 404 queue.declare {NO_QUEUE.format(NAME + '.x')}"),
        ([QueueDelete(queue=NAME)], "queue.delete-ok"),
        ([QueuePurge(queue=NAME)], f"channel 404 queue.purge {NO_QUEUE.format(NAME)}"),
        ([QueueBind(queue=NAME, exchange="amq.direct")], f"channel 404 queue.bind {NO_QUEUE.format(NAME)}"),
        ([BasicGet(queue=NAME)], f"channel 404 basic.get {NO_QUEUE.format(NAME)}"),
    ],
)
def test_answers(methods: list[Method], expected: str) -> None:
    assert connected().answers(*methods) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [(NAME, True), (NAME + ".x", True), (NAME + "x", False), ("amq.gen-x", False)]
)
def test_names(name: str, expected: bool) -> None:
    assert is_reply_name(name) is expected
