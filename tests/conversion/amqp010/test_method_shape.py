"""Fields of one protocol under the names of the other."""

import pytest

from amqproxy.amqp010 import commands
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091 import methods
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.amqp010.method_shape import MethodShape, changed_fields, readable, table, words
from amqproxy.conversion.inexpressible import Inexpressible

DECLARE = MethodShape(
    methods.QueueDeclare,
    {
        "queue": "queue",
        "durable": "durable",
        "exclusive": readable("exclusive"),
        "arguments": table("arguments", "dlx"),
    },
    {"no_wait": True},
)


def test_what_is_not_there_has_its_usual_value() -> None:
    view = DECLARE.view(commands.QueueDeclare(queue="q"))
    assert view == methods.QueueDeclare(queue="q", no_wait=True)


def test_only_what_differs_is_changed() -> None:
    original = commands.QueueDeclare(queue="q", durable=True, arguments=Map({"a": 1}))
    before = DECLARE.view(original)
    assert DECLARE.changed(original, before, before) is original
    after = methods.QueueDeclare(queue="p", durable=True, no_wait=True, arguments=Table({"a": 1}))
    changed = DECLARE.changed(original, before, after)
    assert isinstance(changed, commands.QueueDeclare)
    assert (changed.queue, changed.durable) == ("p", True)


def test_an_alternate_exchange_is_an_argument() -> None:
    original = commands.QueueDeclare(queue="q", alternate_exchange="x", arguments=Map({"a": 1}))
    before = DECLARE.view(original)
    assert isinstance(before, methods.QueueDeclare)
    assert before.arguments.get("dlx") == "x"
    after = methods.QueueDeclare(queue="q", no_wait=True, arguments=Table({"a": 1, "dlx": "y"}))
    changed = DECLARE.changed(original, before, after)
    assert isinstance(changed, commands.QueueDeclare)
    assert (changed.alternate_exchange, changed.arguments) == ("y", original.arguments)
    with pytest.raises(Inexpressible):
        DECLARE.changed(original, before, methods.QueueDeclare(queue="q", no_wait=True, arguments=Table({"dlx": 1})))


@pytest.mark.parametrize(
    "after",
    [
        methods.QueueDeclare(queue="q", exclusive=True, no_wait=True),
        methods.QueueDeclare(queue="q"),
        methods.TxSelect(),
    ],
)
def test_what_has_no_place_cannot_be_changed(after: methods.Method) -> None:
    original = commands.QueueDeclare(queue="q")
    with pytest.raises(Inexpressible):
        DECLARE.changed(original, DECLARE.view(original), after)


def test_words() -> None:
    assert words("a").read(type("Start", (), {"a": Array("str16", ["PLAIN", "EXTERNAL"])})) == b"PLAIN EXTERNAL"
    assert words("a").read(type("Start", (), {"a": None})) == b""


def test_which_fields_differ() -> None:
    assert changed_fields(methods.BasicQos(0, 1), methods.BasicQos(1, 1)) == ["prefetch_size"]
