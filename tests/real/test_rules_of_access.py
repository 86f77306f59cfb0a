"""Who may do what, in front of RabbitMQ: access lists, and CEL over what a client really sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from amqproxy.amqp091.wire import Array, Field, Table
from tests.behaviours.client import Channel, Client, Closed
from tests.real.poll import DEADLINE, until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

LINES = """
allow user "guest" to publish exchange "amq.*", ""
allow user "guest" to declare, consume, get queue "ok-*"
deny user "guest" address "127.0.0.0/8" to bind exchange "amq.fanout"
allow anyone to bind exchange "amq.*"
allow anyone to connect vhost "/"
otherwise deny
"""


@contextmanager
def connected(proxy: Proxy, **options: Any) -> Iterator[BlockingConnection]:
    parameters = pika.ConnectionParameters("127.0.0.1", proxy.port, socket_timeout=DEADLINE, **options)
    connection = BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def test_a_list_lets_pass_what_it_names_and_nothing_else(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    proxy = start_proxy(rabbitmq.port, rules=[{"name": "access", "action": "acl", "lines": LINES}])
    with connected(proxy) as connection:
        channel = connection.channel()
        channel.queue_declare("ok-access", exclusive=True)
        channel.queue_bind("ok-access", "amq.topic", "a.#")
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "a.b", b"first", mandatory=True)
        assert channel.basic_get("ok-access", auto_ack=True)[2] == b"first"
        for refused in (
            lambda on: on.queue_declare("other", exclusive=True),
            lambda on: on.queue_bind("ok-access", "amq.fanout"),
            lambda on: on.exchange_declare("ok-access"),
            lambda on: on.queue_purge("ok-access"),
            lambda on: on.basic_get("other"),
        ):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED") as closed:
                refused(connection.channel())
            assert closed.value.reply_code == 403
        assert channel.is_open, "the other channels never notice"
        channel.basic_publish("amq.topic", "a.b", b"second", mandatory=True)
        assert channel.basic_get("ok-access", auto_ack=True)[2] == b"second"


def test_a_vhost_is_closed_to_users_that_no_line_allows(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    lines = 'allow user "ops-*" to connect\notherwise deny'
    proxy = start_proxy(rabbitmq.port, rules=[{"name": "access", "action": "acl", "lines": lines}])
    refused = pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"\(530\).*by rule 'access, line 2'")
    with refused, connected(proxy):
        pass


def test_an_expression_is_about_what_the_client_really_sends(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    rules = [
        {
            "name": "gold is not for everyone",
            "action": "refuse",
            "with": "nack",
            "when": "headers.tier == 'gold' && client.properties.product.startsWith('Pika') && size > 2",
        },
        {
            "name": "no cheap orders",
            "action": "refuse",
            "with": "nack",
            "match": {"method": "basic.publish", "json": {"/order/total": 0}, "properties": {"type": "order"}},
        },
    ]
    proxy = start_proxy(rabbitmq.port, rules=rules)
    with connected(proxy) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        gold = pika.BasicProperties(headers={"tier": "gold"})
        order = pika.BasicProperties(type="order")
        passing = [
            (b"x", gold),
            (b"xyz", None),
            (b'{"order": {"total": 5}}', order),
            (b'{"order": {"total": 0}}', None),
        ]
        refused = [(b"xyz", gold), (b'{"order": {"total": 0}}', order)]
        for body, properties in passing:
            channel.basic_publish("", queue, body, properties)
        for body, properties in refused:
            with pytest.raises(pika.exceptions.NackError):
                channel.basic_publish("", queue, body, properties)
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in passing]
        assert bodies == [body for body, _ in passing]
        assert channel.basic_get(queue)[2] is None


def test_a_rule_that_fails_refuses_and_the_connection_lives(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    rules = [{"name": "odd", "action": "refuse", "when": "headers.n > 6"}]
    proxy = start_proxy(rabbitmq.port, "--metrics", "127.0.0.1:0", rules=rules)
    with connected(proxy) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(headers={"n": 6}))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(headers={"n": "many"}))
        assert closed.value.reply_code == 541
        assert "rule 'odd' failed" in closed.value.reply_text
        again = connection.channel()
        again.confirm_delivery()
        again.basic_publish("amq.fanout", "", b"")
    until(lambda: re.search(r"rule failed.*FilterFailed in filters\.py, line \d+", proxy.log), "it to be logged")


WALLED = r"""
deny anyone to publish exchange "walled"
deny anyone to publish queue "walled"
deny anyone to bind exchange "walled"
deny anyone to any queue "walled"
deny anyone to publish exchange "half" routing_key "regex:walled.*"
otherwise allow
"""
"""Nobody may bring anything to the exchange or the queue, nor have anything from them."""


class Attacker:
    """A client behind the proxy that tries each way around the list, on a new channel each time."""

    def __init__(self, port: int) -> None:
        self.client = Client(port).open()

    def tries(self, *methods: Any) -> str:
        """Say methods, and tuples of a publish, its properties and so on; the first refusal, or "" where none came."""
        channel = self.client.channel()
        try:
            for each in methods:
                if isinstance(each, tuple):
                    method, properties = each
                    channel.send(method, b"walled off", **properties)
                else:
                    channel.call(each)
            channel.call(ChannelClose(200, "", 0, 0))
        except Closed as closed:
            return str(closed)
        return ""


def copied(*keys: str, name: str = "CC") -> dict[str, Any]:
    return {"headers": Table([Field(name, "A", Array([key])) for key in keys])}


def dead(exchange: str, key: str | None = None) -> Table:
    named = {"x-message-ttl": 1, "x-dead-letter-exchange": exchange}
    return Table(named if key is None else named | {"x-dead-letter-routing-key": key})


MINE = [QueueDeclare(queue="mine", auto_delete=True), ExchangeDeclare(exchange="mine", type="fanout")]
LINE_BREAK = "wal\nled"
TO_MINE = BasicPublish(exchange="", routing_key="mine")
WAYS: dict[str, list[Any]] = {
    "the exchange": [(BasicPublish(exchange="walled", routing_key="k"), {})],
    "the queue": [(BasicPublish(exchange="", routing_key="walled"), {})],
    "a copy": [*MINE, (TO_MINE, copied("walled"))],
    "a blind copy": [*MINE, (TO_MINE, copied("walled", name="BCC"))],
    "the second of two headers": [*MINE, (TO_MINE, copied("mine", "walled"))],
    "a key": [(BasicPublish(exchange="half", routing_key="walled.a"), {})],
    "a key with a line break": [(BasicPublish(exchange="half", routing_key="walled\na"), {})],
    "a copy's key": [(BasicPublish(exchange="half", routing_key="k"), copied("walled.a"))],
    "dead letters": [QueueDeclare(queue="dead-1", arguments=dead("walled"))],
    "dead letters to the queue": [QueueDeclare(queue="dead-2", arguments=dead("", "walled"))],
    "dead letters with their own keys": [QueueDeclare(queue="walled-2", arguments=dead(""))],
    "dead letters with a key": [QueueDeclare(queue="dead-3", arguments=dead("half", "walled.a"))],
    "dead letters of any key": [QueueDeclare(queue="dead-4", arguments=dead("half"))],
    "an alternate exchange": [
        ExchangeDeclare(exchange="mine-2", type="direct", arguments=Table({"alternate-exchange": "walled"}))
    ],
    "an exchange bound to it": [*MINE, ExchangeBind(destination="walled", source="mine")],
    "an exchange bound to it with a line break": [*MINE, ExchangeBind(destination=LINE_BREAK, source="mine")],
    "an exchange bound from it": [*MINE, ExchangeBind(destination="mine", source="walled")],
    "a queue bound to it": [*MINE, QueueBind(queue="mine", exchange="walled")],
    "a queue bound to it with a line break": [*MINE, QueueBind(queue="mine", exchange=LINE_BREAK)],
    "the queue bound": [*MINE, QueueBind(queue="walled", exchange="mine")],
    "the queue bound with a line break": [*MINE, QueueBind(queue=LINE_BREAK, exchange="mine")],
    "the queue declared with a line break": [QueueDeclare(queue=LINE_BREAK, durable=True)],
    "the queue deleted with a line break": [QueueDelete(queue=LINE_BREAK)],
    "the queue read": [BasicGet(queue="walled")],
    "the queue read with a line break": [BasicGet(queue=LINE_BREAK)],
    "the queue consumed with a line break": [BasicConsume(queue=LINE_BREAK)],
    "the queue purged with a line break": [QueuePurge(queue=LINE_BREAK)],
    "the queue consumed": [BasicConsume(queue="walled")],
    "the last queue declared": [QueueDeclare(queue="walled", passive=True), BasicGet(queue="")],
    "the last queue declared, with a line break": [QueueDeclare(queue=LINE_BREAK, passive=True), BasicGet(queue="")],
    "the last queue consumed": [QueueDeclare(queue="walled", passive=True), BasicConsume(queue="")],
    "the last queue bound": [*MINE, QueueDeclare(queue="walled", passive=True), QueueBind(queue="", exchange="mine")],
    "a reply": [*MINE, (TO_MINE, {"reply_to": "walled"})],
}


@pytest.fixture(scope="module")
def walled(rabbitmq: RabbitMQ) -> Iterator[tuple[Channel, str]]:
    """A channel past the proxy, and a queue that gets all that gets to the exchange."""
    client = Client(rabbitmq.port).open()
    channel = client.channel()
    channel.call(ExchangeDeclare(exchange="walled", type="fanout"))
    channel.call(ExchangeDeclare(exchange="half", type="topic"))
    channel.call(QueueDeclare(queue="walled", durable=True))
    spy = channel.call(QueueDeclare(queue="", exclusive=True)).queue
    channel.call(QueueBind(queue=spy, exchange="walled"))
    channel.call(QueueBind(queue=spy, exchange="half", routing_key="walled.#"))
    yield channel, spy
    for exchange in ("walled", "half", "mine", "mine-2"):
        channel.call(ExchangeDelete(exchange=exchange))
    for queue in ("walled", "mine", "walled-2", "dead-1", "dead-2", "dead-3", "dead-4"):
        channel.call(QueueDelete(queue=queue))
    client.close()


@pytest.fixture(scope="module")
def attacker(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    rules = [{"name": "wall", "action": "acl", "lines": WALLED}]
    proxy = Proxy(tmp_path_factory.mktemp("walled"), rabbitmq.port, rules=rules)
    found = Attacker(proxy.port)
    yield found
    found.client.close()
    proxy.kill()


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_around_a_list(way: str, attacker: Attacker, walled: tuple[Channel, str]) -> None:
    refusal = attacker.tries(*WAYS[way])
    assert refusal.startswith("channel 403 "), refusal
    assert "by rule 'wall, line " in refusal
    channel, spy = walled
    for queue in (spy, "walled"):
        assert channel.call(QueueDeclare(queue=queue, passive=True)).message_count == 0


@pytest.mark.parametrize(
    "methods",
    [
        [*MINE, (TO_MINE, copied("mine"))],
        [QueueDeclare(queue="walled", passive=True), ExchangeDeclare(exchange="walled", type="fanout", passive=True)],
        [*MINE, QueueBind(queue="mine", exchange="mine"), BasicGet(queue="mine")],
        [QueueDeclare(queue="", exclusive=True), QueueBind(queue="", exchange="half", routing_key="k")],
        [QueueDeclare(queue="walled", passive=True), QueueDeclare(queue="", exclusive=True), BasicGet(queue="")],
        [(BasicPublish(exchange="half", routing_key="k"), {"reply_to": "mine"})],
        [BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True)],
    ],
)
def test_all_else_passes_the_list(methods: list[Any], attacker: Attacker, walled: tuple[Channel, str]) -> None:
    assert attacker.tries(*methods) == ""
