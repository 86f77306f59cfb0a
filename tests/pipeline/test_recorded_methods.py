"""Methods from their JSON are those that were sent, as access lists and findings look at them."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp010 import commands
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091 import methods
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.method_views import method_view
from amqproxy.peer import CLIENT
from amqproxy.pipeline.recorded_methods import method_of
from amqproxy.rules.matching.operations import operations
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.record import encoded

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "method",
    [
        methods.QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": "dead", "x-max-length": 3})),
        methods.ExchangeBind(destination="a", source="b", routing_key="k"),
        methods.QueueDeclare(queue="\udcff"),
        methods.QueueDeclare(queue="q", arguments=Table([Field("a", "I", 1), Field("a", "S", "x")])),
        methods.QueueDeclare(
            queue="q", arguments=Table({"a": Table({"repeated": [1, 2]}), "b": Table({"repeated": []})})
        ),
        methods.QueueDeclare(queue="q", arguments=Table({"repeated": [1, 2], "c": [Table({"repeated": [3, 4]})]})),
    ],
)
def test_a_method_is_the_one_that_was_sent(method: Method) -> None:
    assert method_of(method.name, encoded(method_arguments(method)).decode()) == method


@pytest.mark.parametrize(
    "sent",
    [
        commands.QueueDeclare(queue="q", alternate_exchange="dead"),
        commands.QueueDeclare(queue="q", alternate_exchange="dead", arguments=Map({"x-dead-letter-routing-key": "k"})),
        commands.QueueDeclare(queue="q", alternate_exchange="", passive=True),
        commands.ExchangeDeclare(exchange="e", type="topic", alternate_exchange="other"),
        commands.ExchangeDelete(exchange="e"),
        commands.QueueDelete(queue="q"),
        commands.QueuePurge(queue="q"),
    ],
)
def test_a_command_of_0_10_does_what_rules_see_of_it(sent: commands.QueueDeclare) -> None:
    found, seen = method_of(sent.name, encoded(method_arguments(sent)).decode()), method_view(CLIENT, sent)
    assert found is not None
    assert seen is not None
    assert operations(Command(1, found)) == operations(Command(1, seen))


def test_a_number_that_only_0_10_has_is_a_text() -> None:
    declare = method_of("queue.declare", msgspec.json.encode({"queue": "q", "arguments": {"n": 2**64 - 1}}).decode())
    assert declare == methods.QueueDeclare(queue="q", arguments=Table({"n": str(2**64 - 1)}))


def test_a_name_of_none() -> None:
    assert method_of("message.flow", "{}") is None
