"""Commands of 0-10 as methods of 0-9-1."""

import pytest

from amqproxy.amqp010 import commands
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091 import methods
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.wire import Table
from amqproxy.taps.trace.equivalents import equivalent


@pytest.mark.parametrize(
    ("command", "method"),
    [
        (
            commands.MessageSubscribe(queue="q", destination="d", accept_mode=1, exclusive=True),
            methods.BasicConsume(queue="q", consumer_tag="d", no_ack=True, exclusive=True),
        ),
        (commands.MessageSubscribe(queue="q", accept_mode=0), methods.BasicConsume(queue="q")),
        (commands.MessageSubscribe(queue="q", accept_mode=1, acquire_mode=1), methods.BasicConsume(queue="q")),
        (commands.MessageCancel(destination="d"), methods.BasicCancel(consumer_tag="d")),
        (
            commands.QueueDeclare(
                queue="q", durable=True, arguments=Map({"qpid.max_count": 5, "x-expires": 9, "qpid.other": 1})
            ),
            methods.QueueDeclare(queue="q", durable=True, arguments=Table({"x-max-length": 5, "x-expires": 9})),
        ),
        (commands.QueueDelete(queue="q", if_empty=True), methods.QueueDelete(queue="q", if_empty=True)),
        (commands.QueuePurge(queue="q"), methods.QueuePurge(queue="q")),
        (
            commands.ExchangeBind(queue="q", exchange="x", binding_key="k"),
            methods.QueueBind(queue="q", exchange="x", routing_key="k"),
        ),
        (
            commands.ExchangeUnbind(queue="q", exchange="x", binding_key="k"),
            methods.QueueUnbind(queue="q", exchange="x", routing_key="k"),
        ),
        (
            commands.ExchangeDeclare(exchange="x", type="topic", passive=True),
            methods.ExchangeDeclare(exchange="x", type="topic", passive=True),
        ),
        (commands.ExchangeDelete(exchange="x"), methods.ExchangeDelete(exchange="x")),
        (commands.ExecutionSync(), None),
        (methods.QueuePurge(queue="q"), methods.QueuePurge(queue="q")),
        (None, None),
    ],
)
def test_what_both_have_is_the_same(command: Amqp010Method | Method | None, method: Method | None) -> None:
    assert equivalent(command) == method
