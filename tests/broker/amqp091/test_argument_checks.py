"""Arguments that RabbitMQ's parser refuses; `tests/behaviours/test_malformed.py` asks RabbitMQ itself."""

import pytest

from amqproxy.amqp091.errors import ErrorKind, FrameError, ProtocolError, SyntaxViolation
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicConsume, BasicPublish, ConnectionStartOk, Method, QueueBind, QueueDeclare
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.amqp091.argument_checks import check

NAN = float("nan")


def checked(method: Method) -> None:
    check(Frame(encode_method(3, method)))


@pytest.mark.parametrize(
    ("method", "error"),
    [
        (QueueBind(routing_key="\udcff"), FrameError),
        (BasicConsume(consumer_tag="\udcff"), FrameError),
        (QueueDeclare(arguments=Table([Field("k", "U", 1)])), SyntaxViolation),
        (QueueDeclare(arguments=Table({"k": NAN})), SyntaxViolation),
        (QueueDeclare(arguments=Table({"k": Array([Item("f", NAN)])})), SyntaxViolation),
        (ConnectionStartOk(Table({"k": {"k": NAN}}), "PLAIN", b"", "en_US"), SyntaxViolation),
    ],
)
def test_refused(method: Method, error: type[ProtocolError]) -> None:
    with pytest.raises(error) as caught:
        checked(method)
    fault = caught.value
    assert (fault.channel, fault.class_id, fault.method_id) == (3, method.class_id, method.method_id)
    assert (fault.kind is ErrorKind.NOT_UTF_8) == (error is FrameError)


@pytest.mark.parametrize(
    "method",
    [
        QueueBind(routing_key="ключ", arguments=Table({"k": 1.5, "\udcff": b"\xff"})),
        BasicPublish(exchange="\udcff", routing_key="\udcff"),
    ],
)
def test_taken(method: Method) -> None:
    checked(method)
