"""Which operation needs which permission on what: each answer is RabbitMQ 3.10's."""

import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import EVERYTHING, Broker
from tests.broker.client import Client, connected

QUEUE = "access to queue '{}' in vhost 'v' refused for user 'u'"
EXCHANGE = "access to exchange '{}' in vhost 'v' refused for user 'u'"
TOPIC = "access to topic '{}' in exchange 't' in vhost 'v' refused for user 'u'"


@pytest.fixture
def broker() -> Broker:
    """With queues q and dlq and exchanges x, x2 and t in the virtual host v, where u may do nothing."""
    broker = Broker()
    broker.add_vhost("v")
    broker.users["guest"].permit("v", EVERYTHING)
    user = User.with_password("u", "u")
    user.permit("v", Permission("", "", ""))
    broker.add_user(user)
    client = connected(broker, vhost="v")
    for name, type_ in (("x", "direct"), ("x2", "direct"), ("t", "topic")):
        client.ask(ExchangeDeclare(exchange=name, type=type_))
    client.declare("q")
    client.declare("dlq", arguments={"x-dead-letter-exchange": "x2"})
    return broker


def as_user(broker: Broker) -> Client:
    return connected(broker, vhost="v", user="u", password="u")


def refused(method: Method, text: str) -> str:
    return f"channel 403 {method.name} ACCESS_REFUSED - {text}"


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (QueueDeclare(queue="q", passive=True), ""),
        (QueueDeclare(queue="q"), QUEUE.format("q")),
        (QueueDeclare(queue="q", durable=True), QUEUE.format("q")),
        (QueueDeclare(queue="new"), QUEUE.format("new")),
        (QueueDelete(queue="q"), QUEUE.format("q")),
        (QueueDelete(queue="nil"), QUEUE.format("nil")),
        (QueuePurge(queue="q"), QUEUE.format("q")),
        (QueuePurge(queue="nil"), QUEUE.format("nil")),
        (BasicGet(queue="q"), QUEUE.format("q")),
        (BasicConsume(queue="q"), QUEUE.format("q")),
        (QueueBind(queue="q", exchange="x"), QUEUE.format("q")),
        (QueueBind(queue="nil", exchange="nil"), QUEUE.format("nil")),
        (QueueUnbind(queue="q", exchange="x"), QUEUE.format("q")),
        (ExchangeDeclare(exchange="x"), EXCHANGE.format("x")),
        (ExchangeDeclare(exchange="x", passive=True), ""),
        (ExchangeDeclare(exchange="new"), EXCHANGE.format("new")),
        (ExchangeDeclare(exchange="amq.new"), EXCHANGE.format("amq.new")),
        (ExchangeDelete(exchange="x"), EXCHANGE.format("x")),
        (ExchangeDelete(exchange="nil"), EXCHANGE.format("nil")),
        (ExchangeDelete(exchange="amq.direct"), "deletion of system exchange 'amq.direct' in vhost 'v' not allowed"),
        (ExchangeBind(destination="x2", source="x"), EXCHANGE.format("x2")),
        (BasicPublish(exchange="x", routing_key="k"), EXCHANGE.format("x")),
        (BasicPublish(exchange="", routing_key="k"), EXCHANGE.format("amq.default")),
        (BasicPublish(exchange="nil", routing_key="k"), EXCHANGE.format("nil")),
        (BasicPublish(exchange="", routing_key="amq.rabbitmq.reply-to.x"), EXCHANGE.format("amq.default")),
        (BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True), ""),
        (QueueDeclare(queue="amq.rabbitmq.reply-to"), ""),
    ],
)
def test_who_may_do_nothing(broker: Broker, method: Method, expected: str) -> None:
    answer = as_user(broker).answers(method)
    assert answer == (refused(method, expected) if expected else f"{method.name}-ok")


def test_the_type_comes_before_the_permission(broker: Broker) -> None:
    answer = as_user(broker).answers(ExchangeDeclare(exchange="new", type="carousel"))
    assert answer == "connection 503 exchange.declare COMMAND_INVALID - unknown exchange type 'carousel'"


def declare(queue: str, dead_letters_to: str) -> QueueDeclare:
    return QueueDeclare(queue=queue, arguments=Table({"x-dead-letter-exchange": dead_letters_to}))


def exchange(name: str, alternate: str) -> ExchangeDeclare:
    return ExchangeDeclare(exchange=name, arguments=Table({"alternate-exchange": alternate}))


@pytest.mark.parametrize(
    ("permission", "method", "expected"),
    [
        (("", "^q$", "^x$"), QueueBind(queue="q", exchange="x"), ""),
        (("", "^q$", "^x$"), QueueUnbind(queue="q", exchange="x"), ""),
        (("", "^q$", "^q$"), QueueBind(queue="q", exchange="x"), EXCHANGE.format("x")),
        (("", "^x2$", "^x$"), ExchangeBind(destination="x2", source="x"), ""),
        (("", "^x2$", "^q$"), ExchangeBind(destination="x2", source="x"), EXCHANGE.format("x")),
        (("", "", "^q$"), QueuePurge(queue="q"), ""),
        (("", "", "^q$"), BasicConsume(queue="q"), ""),
        (("", "^amq.default$", ""), BasicPublish(exchange="", routing_key="k"), None),
        (("^new$", "^x2$", "^new$"), declare("new", "x2"), ""),
        (("^new$", "^x2$", ""), declare("new", "x2"), QUEUE.format("new")),
        (("^new$", "", "^new$"), declare("new", "x2"), EXCHANGE.format("x2")),
        (("^new$", "", "^new$"), declare("new", ""), EXCHANGE.format("amq.default")),
        (("^dlq$", "", ""), declare("dlq", "x2"), ""),
        (("^new$", "^x2$", "^new$"), exchange("new", "x2"), ""),
        (("^new$", "^x2$", ""), exchange("new", "x2"), EXCHANGE.format("new")),
        (("^new$", "", "^new$"), exchange("new", "x2"), EXCHANGE.format("x2")),
    ],
)
def test_what_each_needs(
    broker: Broker, permission: tuple[str, str, str], method: Method, expected: str | None
) -> None:
    broker.users["u"].permit("v", Permission(*permission))
    answer = as_user(broker).answers(method)
    assert answer == ("" if expected is None else refused(method, expected) if expected else f"{method.name}-ok")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (BasicPublish(exchange="t", routing_key="u.v"), None),
        (BasicPublish(exchange="t", routing_key="other"), TOPIC.format("other")),
        (BasicPublish(exchange="amq.topic", routing_key="other"), None),
        (QueueBind(queue="q", exchange="t", routing_key="r.#"), ""),
        (QueueBind(queue="q", exchange="t", routing_key="other"), TOPIC.format("other")),
        (QueueUnbind(queue="q", exchange="t", routing_key="other"), TOPIC.format("other")),
        (ExchangeBind(destination="x", source="t", routing_key="other"), TOPIC.format("other")),
    ],
)
def test_topics(broker: Broker, method: Method, expected: str | None) -> None:
    user = broker.users["u"]
    user.permit("v", EVERYTHING)
    user.permit_topic("v", "t", TopicPermission("^{username}\\.{vhost}$", "^r\\."))
    answer = as_user(broker).answers(method)
    assert answer == ("" if expected is None else refused(method, expected) if expected else f"{method.name}-ok")


def test_copies_are_not_asked_for(broker: Broker) -> None:
    user = broker.users["u"]
    user.permit("v", EVERYTHING)
    user.permit_topic("v", "t", TopicPermission("^mine$", ""))
    assert as_user(broker).publish("t", "mine", headers={"CC": ["other"]}) == ""


def test_a_permission_taken_away_is_gone_at_once(broker: Broker) -> None:
    user = broker.users["u"]
    user.permit("v", EVERYTHING)
    client = as_user(broker)
    assert client.publish("x", "k") == ""
    user.permit("v", Permission("", "", ""))
    assert "403" in client.publish("x", "k")


def test_queues_have_a_limit(broker: Broker) -> None:
    broker.vhosts["v"].limits["max-queues"] = 2
    client = connected(broker, vhost="v")
    assert client.answers(QueueDeclare(queue="q")) == "queue.declare-ok"
    assert client.answers(QueueDeclare(queue="more")) == (
        "channel 406 queue.declare PRECONDITION_FAILED - "
        "cannot declare queue 'more': queue limit in vhost 'v' (2) is reached"
    )
