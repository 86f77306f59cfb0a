"""Which commands a filter lets by, once they are complete."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ConnectionOpen, Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import compiled


@pytest.mark.parametrize(
    ("expression", "method", "holds"),
    [
        ("exchange == 'e'", BasicPublish(exchange="e"), True),
        ("exchange == 'e'", BasicPublish(exchange="f"), False),
        ("method == 'basic.ack'", BasicAck(delivery_tag=1), True),
        ("channel.number == 3", BasicPublish(), True),
        ("size > 9", BasicPublish(), True),
        ("size > 10", BasicPublish(), False),
        ("headers.n == 1", BasicPublish(), True),
        ("body == 'hello'", BasicPublish(), True),
        ("client.address == '10.0.0.1'", BasicPublish(), True),
    ],
)
def test_it_holds(expression: str, method: Method, holds: bool) -> None:
    chosen = CommandFilter(compiled(expression), Client.named(7, "10.0.0.1:5-10.0.0.2:6"))
    size = 5 if "body" in expression else 10
    assert chosen.selects(CLIENT, 3, method, Properties(headers=Table({"n": 1})), size, b"hello", ts_ns=0) is holds


def test_what_it_fails_on_is_let_by() -> None:
    chosen = CommandFilter(compiled("int(routing_key) > 1"), Client())
    assert chosen.selects(CLIENT, 1, BasicPublish(), Properties(), 0, b"", ts_ns=0)


def test_only_a_filter_of_bodies_keeps_them() -> None:
    assert CommandFilter.kept_body(compiled("size > 1")) == 0
    assert CommandFilter.kept_body(compiled("body == 'x'")) == MAX_BODY


def test_it_knows_the_client_by_what_that_has_sent() -> None:
    chosen = CommandFilter(compiled("vhost == 'v' && 'slow' in tags"), Client())
    chosen.learn(CLIENT, Frame(encode_method(0, ConnectionOpen("v"))))
    publish = (CLIENT, 1, BasicPublish(), Properties(), 0, b"")
    assert chosen.selects(*publish, ts_ns=0, tags=("slow",))
    assert not chosen.selects(*publish, ts_ns=0)
