"""What commands do, and where they name what they do it to."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    ConnectionOpen,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.conversion.view_fields import FALLS_BACK
from amqproxy.rules.access.access_list import ACTS
from amqproxy.rules.matching.operations import (
    METHODS,
    UNKNOWN,
    Name,
    Operation,
    exchanges_of,
    falls_back,
    operations,
    queues_of,
    routing_keys_of,
    spellings,
)
from tests.rules.commands import command


def op(
    act: str, exchange: str | None = None, queue: Name | None = None, key: Name | None = None, implied: bool = False
) -> Operation:
    return Operation(act=act, exchange=exchange, queue=queue, routing_key=key, is_implied=implied)


def to_queue(name: Name) -> Operation:
    return op("publish", "", name, name)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (BasicPublish(exchange="e", routing_key="k"), [op("publish", "e", key="k")]),
        (BasicPublish(routing_key="q"), [to_queue("q")]),
        (BasicConsume(queue="q"), [op("consume", queue="q")]),
        (BasicGet(queue="q"), [op("get", queue="q")]),
        (BasicGet(queue="q\nr"), [op("get", queue="q\nr"), op("get", queue="qr")]),
        (BasicConsume(queue="q\nr"), [op("consume", queue="q\nr"), op("consume", queue="qr")]),
        (QueuePurge(queue="q\rr"), [op("purge", queue="q\rr"), op("purge", queue="qr")]),
        (QueuePurge(queue="q"), [op("purge", queue="q")]),
        (QueueDelete(queue="q"), [op("delete", queue="q")]),
        (ExchangeDelete(exchange="e"), [op("delete", "e")]),
        (ConnectionOpen("/"), [op("connect")]),
        (QueueDeclare(queue="q"), [op("declare", queue="q")]),
        (QueueDeclare(queue="q", passive=True), []),
        (ExchangeDeclare(exchange="e", passive=True), []),
        (
            QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k"})),
            [op("declare", queue="q"), op("consume", queue="q"), op("publish", "d", key="k")],
        ),
        (
            QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": ""})),
            [op("declare", queue="q"), op("consume", queue="q"), to_queue(UNKNOWN)],
        ),
        (QueueDeclare(queue="q", arguments=Table({"x-dead-letter-routing-key": "k"})), [op("declare", queue="q")]),
        (
            ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "a"})),
            [op("declare", "e"), op("bind", "e"), op("publish", "a", key=UNKNOWN)],
        ),
        (
            QueueBind(queue="q", exchange="e", routing_key="k"),
            [op("bind", "e", "q", "k"), op("publish", "", "q", "q", implied=True)],
        ),
        (QueueUnbind(queue="q", exchange="e", routing_key="k"), [op("unbind", "e", "q", "k")]),
        (
            ExchangeBind(source="s", destination="d", routing_key="k"),
            [op("bind", "s", key="k"), op("bind", "d", key="k"), op("publish", "d", key=UNKNOWN)],
        ),
        (
            ExchangeUnbind(source="s", destination="d", routing_key="k"),
            [op("unbind", "s", key="k"), op("unbind", "d", key="k")],
        ),
        (QueueDelete(queue="a\r\nb"), [op("delete", queue="a\r\nb"), op("delete", queue="ab")]),
        (BasicAck(1), []),
    ],
)
def test_what_methods_do(method: Method, expected: list[Operation]) -> None:
    assert list(operations(command(method))) == expected


COPIES = Table(
    [
        Field("CC", "A", Array([Item("S", "c"), Item("x", b"o"), Item("I", 1), Item("A", Array(["n"]))])),
        Field("cc", "A", Array(["no"])),
        Field("BCC", "S", "b"),
        Field("CC", "A", Array(["c2"])),
    ]
)


def test_a_publish_goes_by_all_its_keys_and_may_be_answered() -> None:
    sent = command(BasicPublish(exchange="e", routing_key="k"), 1, Properties(headers=COPIES, reply_to="r"))
    keys = ["k", "c", "o", "n", "c2", "b"]
    published = [op("publish", "e", key=each) for each in keys]
    assert list(operations(sent)) == [*published, op("publish", "", "r", "r", implied=True)]
    assert routing_keys_of(sent) == keys
    assert queues_of(sent) == []
    directly = Properties(headers=COPIES, reply_to="amq.rabbitmq.reply-to")
    to_default = command(BasicPublish(routing_key="k"), 1, directly)
    assert list(operations(to_default)) == [to_queue(each) for each in keys]
    assert queues_of(to_default) == keys


def test_headers_that_a_rule_has_made_are_looked_at() -> None:
    sent = command(BasicPublish(exchange="e", routing_key="k"))
    assert routing_keys_of(sent.altered(properties=Properties(headers=COPIES)))[1:3] == ["c", "o"]


@pytest.mark.parametrize(
    ("method", "exchanges", "queues", "keys"),
    [
        (ExchangeBind(source="s", destination="d", routing_key="k"), ["s", "d"], [], ["k", UNKNOWN]),
        (
            QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"})),
            [""],
            ["q", "k"],
            ["k"],
        ),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "a"})), ["e", "a"], [], [UNKNOWN]),
        (QueueBind(queue="q\n", exchange="e\r", routing_key="k\n"), ["e\r", "e"], ["q\n", "q"], ["k\n"]),
        (BasicAck(1), [], [], []),
    ],
)
def test_the_names_of_a_command(method: Method, exchanges: list[str], queues: list[Name], keys: list[Name]) -> None:
    sent = command(method)
    assert (exchanges_of(sent), queues_of(sent), routing_keys_of(sent)) == (exchanges, queues, keys)


def test_what_rabbitmq_makes_of_line_breaks() -> None:
    assert spellings("a") == ("a",)
    assert spellings("\ra\n\nb") == ("\ra\n\nb", "ab")


def test_the_methods_of_each_act_are_those_that_do_it() -> None:
    everything = Table({"x-dead-letter-exchange": "d", "alternate-exchange": "a"})
    done: dict[str, set[str]] = {}
    for name, cls in BY_NAME.items():
        has_arguments = name in ("queue.declare", "exchange.declare")
        method = cls(arguments=everything) if has_arguments else cls()  # type: ignore[call-arg]
        for operation in operations(command(method)):
            done.setdefault(operation.act, set()).add(name)
    assert done == METHODS
    assert METHODS.keys() == ACTS.keys()


def test_a_publish_of_0_10_whose_exchange_may_be_none_is_about_all_that_may_come_of_it() -> None:
    publish = command(BasicPublish(reserved_1=FALLS_BACK, exchange="d", routing_key="k"))
    assert exchanges_of(publish) == ["d", ""]
    assert queues_of(publish) == ["d", "k"]
    assert routing_keys_of(publish) == ["k", "d"]
    assert operations(publish) == (
        Operation(act="publish", exchange="d", routing_key="k"),
        Operation(act="publish", exchange="", routing_key="k", queue="k"),
        Operation(act="publish", exchange="", routing_key="d", queue="d"),
    )
    assert not falls_back(BasicPublish(reserved_1=FALLS_BACK, exchange="", routing_key="k"))
    assert not falls_back(BasicPublish(exchange="d", routing_key="k"))


@pytest.mark.parametrize("exchange", ["", "d"])
def test_a_client_of_0_9_1_that_sets_the_mark_hides_no_name_by_it(exchange: str) -> None:
    properties = Properties(headers=COPIES, reply_to="r")
    plain = command(BasicPublish(exchange=exchange, routing_key="k"), 1, properties)
    marked = command(BasicPublish(reserved_1=FALLS_BACK, exchange=exchange, routing_key="k"), 1, properties)
    for names in (exchanges_of, queues_of, routing_keys_of, operations):
        assert set(names(plain)) <= set(names(marked))
