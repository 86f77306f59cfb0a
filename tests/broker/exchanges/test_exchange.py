"""Exchanges as a client declares, binds and deletes them: each answer is RabbitMQ 3.10's."""

import pytest

from amqproxy.amqp091.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from amqproxy.amqp091.wire import Item, Table
from amqproxy.broker.broker import Broker
from tests.broker.client import Client, connected

DECLARE = "channel {} exchange.declare"
BIND = "channel {} exchange.bind"
UNBIND = "channel {} exchange.unbind"
DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def args(**arguments: object) -> Table:
    return Table({name.replace("_", "-"): value for name, value in arguments.items()})


def x(name: str = "x", type_: str = "direct", **options: object) -> ExchangeDeclare:
    return ExchangeDeclare(exchange=name, type=type_, **options)  # type: ignore[arg-type]


HERE = QueueDeclare(queue="here")


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([x()], "exchange.declare-ok"),
        ([x(), x()], "exchange.declare-ok"),
        ([x("nil", passive=True)], "channel 404 exchange.declare NOT_FOUND - no exchange 'nil' in vhost '/'"),
        ([x("", passive=True)], f"channel 403 exchange.declare {DEFAULT}"),
        (
            [x("amq.mine", passive=True)],
            "channel 404 exchange.declare NOT_FOUND - no exchange 'amq.mine' in vhost '/'",
        ),
        ([x("amq.direct", "carousel", passive=True)], "exchange.declare-ok"),
        ([x("", durable=True)], f"channel 403 exchange.declare {DEFAULT}"),
        (
            [x("amq.mine")],
            "channel 403 exchange.declare ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
        ([x("amq.direct", durable=True)], "exchange.declare-ok"),
        (
            [x("amq.direct", "fanout", durable=True)],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in "
            "vhost '/': received 'fanout' but current is 'direct'",
        ),
        (
            [x("amq.direct")],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' "
            "in vhost '/': received 'false' but current is 'true'",
        ),
        (
            [x(), x(internal=True)],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'internal' for exchange 'x' in vhost "
            "'/': received 'true' but current is 'false'",
        ),
        ([x(type_="carousel")], "connection 503 exchange.declare COMMAND_INVALID - unknown exchange type 'carousel'"),
        ([x(type_="")], "connection 503 exchange.declare COMMAND_INVALID - invalid exchange type ''"),
        (
            [x("amq.direct", "carousel", durable=True)],
            "connection 503 exchange.declare COMMAND_INVALID - unknown exchange type 'carousel'",
        ),
        (
            [x(arguments=args(alternate_exchange=1))],
            "channel 406 exchange.declare PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
            "in exchange 'x' in vhost '/'",
        ),
        (
            [x(), x(arguments=args(alternate_exchange=1))],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' "
            "in vhost '/': received the value '1' of type 'signedint' but current is none",
        ),
        (
            [x(arguments=args(alternate_exchange="a")), x(arguments=args(alternate_exchange="b"))],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' "
            "in vhost '/': received 'b' but current is 'a'",
        ),
        (
            [x(arguments=args(alternate_exchange="a")), x()],
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' "
            "in vhost '/': received none but current is the value 'a' of type 'longstr'",
        ),
        ([x(arguments=args(mine=1)), x(arguments=args(mine=2))], "exchange.declare-ok"),
        ([x("a\r\nb"), x("ab", passive=True)], "exchange.declare-ok"),
        ([ExchangeDelete(exchange="")], f"channel 403 exchange.delete {DEFAULT}"),
        (
            [ExchangeDelete(exchange="amq.mine")],
            "channel 403 exchange.delete ACCESS_REFUSED - deletion of system exchange 'amq.mine' in vhost '/' not "
            "allowed",
        ),
        ([ExchangeDelete(exchange="nil", if_unused=True)], "exchange.delete-ok"),
        (
            [
                x(),
                ExchangeBind(destination="amq.fanout", source="x"),
                ExchangeDelete(exchange="x", if_unused=True),
            ],
            "channel 406 exchange.delete PRECONDITION_FAILED - exchange 'x' in vhost '/' in use",
        ),
        (
            [x(), ExchangeBind(destination="x", source="amq.fanout"), ExchangeDelete(exchange="x", if_unused=True)],
            "exchange.delete-ok",
        ),
        (
            [ExchangeBind(destination="nil1", source="nil2")],
            "channel 404 exchange.bind NOT_FOUND - no exchange 'nil2' in vhost '/'",
        ),
        (
            [ExchangeBind(destination="nil1", source="amq.direct")],
            "channel 404 exchange.bind NOT_FOUND - no exchange 'nil1' in vhost '/'",
        ),
        ([ExchangeBind(destination="amq.direct", source="")], f"channel 403 exchange.bind {DEFAULT}"),
        ([ExchangeBind(destination="", source="amq.direct")], f"channel 403 exchange.bind {DEFAULT}"),
        ([ExchangeUnbind(destination="", source="amq.direct")], f"channel 403 exchange.unbind {DEFAULT}"),
        ([ExchangeUnbind(destination="nil1", source="nil2")], "exchange.unbind-ok"),
        ([ExchangeUnbind(destination="amq.fanout", source="amq.direct", routing_key="k")], "exchange.unbind-ok"),
        ([QueueBind(queue="nil", exchange="", routing_key="k")], f"channel 403 queue.bind {DEFAULT}"),
        ([HERE, QueueUnbind(queue="here", exchange="", routing_key="here")], f"channel 403 queue.unbind {DEFAULT}"),
        (
            [QueueBind(queue="nil1", exchange="nil2")],
            "channel 404 queue.bind NOT_FOUND - no exchange 'nil2' in vhost '/'",
        ),
        (
            [QueueBind(queue="nil1", exchange="amq.direct")],
            "channel 404 queue.bind NOT_FOUND - no queue 'nil1' in vhost '/'",
        ),
        ([QueueUnbind(queue="nil1", exchange="nil2")], "queue.unbind-ok"),
        (
            [HERE, QueueBind(queue="here", exchange="amq.headers", arguments=args(x_match="some"))],
            'channel 406 queue.bind PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, '
            "all-with-x, or any-with-x",
        ),
        (
            [HERE, QueueBind(queue="here", exchange="amq.headers", arguments=args(x_match=Item("l", 7)))],
            "channel 406 queue.bind PRECONDITION_FAILED - Invalid x-match field type long (value 7); expected longstr",
        ),
        ([HERE, QueueBind(queue="here", exchange="amq.direct", arguments=args(x_match=1))], "queue.bind-ok"),
    ],
)
def test_answers(methods: list[Method], expected: str) -> None:
    assert connected().answers(*methods) == expected


@pytest.fixture
def client() -> Client:
    client = connected()
    for queue in ("q1", "q2"):
        client.declare(queue)
    return client


def got(client: Client) -> list[int]:
    return [client.depth(queue) for queue in ("q1", "q2")]


def test_a_binding_without_a_key_takes_the_name_of_the_last_queue_where_that_is_meant(client: Client) -> None:
    client.ask(QueueBind(exchange="amq.direct"))
    client.publish("amq.direct", "q2")
    client.ask(QueueBind(queue="q1", exchange="amq.direct"))
    client.publish("amq.direct", "")
    assert got(client) == [1, 1]


def test_a_cycle_of_exchanges_gives_one_copy(client: Client) -> None:
    for name in ("a", "b"):
        client.ask(x(name, "fanout"))
    client.ask(ExchangeBind(destination="b", source="a"))
    client.ask(ExchangeBind(destination="a", source="b"))
    client.ask(ExchangeBind(destination="a", source="a"))
    client.bind("q1", "a")
    client.bind("q1", "b")
    client.publish("a", "")
    assert got(client) == [1, 0]


def test_an_alternate_exchange_takes_what_nothing_fits(client: Client) -> None:
    client.ask(x("alternate", "fanout", internal=True))
    client.ask(x(arguments=args(alternate_exchange="alternate")))
    client.bind("q1", "x", "k")
    client.bind("q2", "alternate")
    assert client.publish("x", "k", mandatory=True, headers={"CC": ["other"]}) == ""
    assert client.publish("x", "other", mandatory=True) == ""
    assert got(client) == [1, 1]


def test_alternate_exchanges_in_a_circle(client: Client) -> None:
    client.ask(x("a", arguments=args(alternate_exchange="b")))
    client.ask(x("b", arguments=args(alternate_exchange="a")))
    assert client.publish("a", "k", mandatory=True) == "basic.return"


def test_the_default_exchange_as_alternate_takes_nothing(client: Client) -> None:
    client.ask(x(arguments=args(alternate_exchange="")))
    assert client.publish("x", "q1", mandatory=True) == "basic.return"


def test_auto_delete_exchanges_go_with_their_last_binding_one_after_another(client: Client) -> None:
    client.ask(x("first", auto_delete=True))
    client.ask(x("second", auto_delete=True))
    client.ask(ExchangeBind(destination="second", source="first"))
    client.bind("q1", "second")
    client.ask(QueueUnbind(queue="q1", exchange="second"))
    assert not {"first", "second"} & set(client.broker.vhosts["/"].exchanges)


def test_routes_follow_every_change(client: Client) -> None:
    client.ask(x())
    assert client.publish("x", "k", mandatory=True) == "basic.return"
    client.bind("q1", "x", "k")
    assert client.publish("x", "k", mandatory=True) == ""
    client.bind("q1", "x", "k", more=1)
    client.ask(QueueUnbind(queue="q1", exchange="x", routing_key="k"))
    assert client.publish("x", "k", mandatory=True) == ""
    client.ask(QueueUnbind(queue="q1", exchange="x", routing_key="k", arguments=args(more=1)))
    assert client.publish("x", "k", mandatory=True) == "basic.return"
    client.bind("q2", "x", "k")
    client.ask(ExchangeDelete(exchange="x"))
    client.ask(x())
    assert client.publish("x", "k", mandatory=True) == "basic.return"
    assert got(client) == [2, 0]


def test_the_order_of_a_bindings_arguments_means_nothing(client: Client) -> None:
    client.bind("q1", "amq.headers", a=1, b=2)
    client.ask(QueueUnbind(queue="q1", exchange="amq.headers", arguments=Table({"b": 2, "a": 1})))
    assert client.publish("amq.headers", "", mandatory=True, headers={"a": 1, "b": 2}) == "basic.return"


def test_predeclared() -> None:
    exchanges = Broker(log_exchange=True).vhosts["/"].exchanges
    assert {name: exchange.type for name, exchange in exchanges.items()} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
        "amq.rabbitmq.log": "topic",
        "amq.topic": "topic",
    }
    assert all(exchange.durable for exchange in exchanges.values())
    assert [name for name, exchange in exchanges.items() if exchange.internal] == [
        "amq.rabbitmq.trace",
        "amq.rabbitmq.log",
    ]


def test_the_log_is_published_under_its_level(client: Client) -> None:
    broker = Broker(log_exchange=True)
    client = connected(broker)
    client.declare("log")
    client.bind("log", "amq.rabbitmq.log", "error")
    broker.log("info", "all is well", 1.0)
    broker.log("error", "all is lost", 2.0)
    assert client.depth("log") == 1
