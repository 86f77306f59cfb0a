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

from tests.real.poll import DEADLINE
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


def test_a_vhost_is_closed_to_whom_no_line_lets_in(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
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
    rules = [{"name": "odd", "action": "tag", "tags": ["x"], "when": "headers.n > 5"}]
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
    assert re.search(r"rule 'odd' failed: FilterFailed in filters\.py, line \d+", proxy.log)
