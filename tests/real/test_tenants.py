"""Two tenants of one virtual host, by the rules on the page: what one does never reaches the other."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicPublish,
    BasicReturn,
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
from amqproxy.broker import Broker, serve_in_thread
from amqproxy.broker.definitions import definitions_json
from tests.behaviours.client import Channel, Client, Closed, until
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ
from tests.rule_examples import DOCS

pytestmark = pytest.mark.real

EVERYTHING = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
TENANTS = {
    "users": [{"name": name, "password": "pw", "tags": ""} for name in ("a", "b")],
    "vhosts": [{"name": "/"}],
    "permissions": [{"user": name} | EVERYTHING for name in ("a", "b")],
}


def shown() -> list[dict[str, Any]]:
    """The two rules of the page."""
    text = (DOCS / "rules" / "rewrite.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```toml\n")[1:]]
    found = [rule for block in blocks for rule in tomllib.loads(block)["rules"]]
    return [rule for rule in found if rule["name"] in ("nor at the broker's own exchanges", "tenants do not meet")]


@pytest.fixture(scope="module", params=["rabbitmq", "amqproxy"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the proxy listens, in front of either broker."""
    with ExitStack() as stack:
        if request.param == "rabbitmq":
            node: RabbitMQ = request.getfixturevalue("rabbitmq")
            file = tmp_path_factory.mktemp("definitions") / "definitions.json"
            file.write_text(json.dumps(TENANTS))
            node.ctl("import_definitions", str(file))
            behind = node.port
        else:
            own = Broker()
            definitions_json.load(own, TENANTS, 0.0)
            behind = stack.enter_context(serve_in_thread(own)).port
        proxy = Proxy(tmp_path_factory.mktemp("tenants"), behind, rules=shown())
        stack.callback(proxy.kill)
        yield proxy.port
        if request.param == "rabbitmq":
            for name in ("a", "b"):
                node.ctl("delete_user", name)


class Tenant:
    def __init__(self, port: int, name: str) -> None:
        self.client = Client(port).open(user=name, password="pw")
        self.channel = self.client.channel()

    def error_of(self, *methods: Any) -> str:
        """Send methods, and publishes with their properties, on a separate channel; return the error, if any."""
        channel = self.client.channel()
        try:
            for each in methods:
                if isinstance(each, tuple):
                    channel.send(each[0], b"from a", **each[1])
                else:
                    channel.call(each)
            channel.call(ChannelClose(200, "", 0, 0))
        except Closed as closed:
            return str(closed)
        return ""


@pytest.fixture(scope="module")
def tenants(port: int) -> Iterator[tuple[Tenant, Tenant]]:
    """Both with an exchange and a queue of the same names, and a queue that gets all of the exchange."""
    both = Tenant(port, "a"), Tenant(port, "b")
    for tenant in both:
        channel = tenant.channel
        channel.call(ExchangeDeclare(exchange="e", type="topic"))
        channel.call(QueueDeclare(queue="q"))
        channel.call(QueueDeclare(queue="all"))
        channel.call(QueueBind(queue="all", exchange="e", routing_key="#"))
    a, _ = both
    a.channel.call(ExchangeDeclare(exchange="mine", type="fanout"))
    yield both
    for tenant in both:
        for queue in ("q", "all", *(f"d{number}" for number in range(9))):
            tenant.channel.call(QueueDelete(queue=queue))
        for exchange in ("e", "mine", *(f"x{number}" for number in range(9))):
            tenant.channel.call(ExchangeDelete(exchange=exchange))
        tenant.client.close()


def copied(*keys: str, name: str = "CC") -> dict[str, Any]:
    return {"headers": Table([Field(name, "A", Array([key])) for key in keys])}


def dead(number: int, exchange: str, key: str | None = None) -> list[Any]:
    """A queue whose dead letters go there, and one that dies."""
    arguments: dict[str, Any] = {"x-message-ttl": 1, "x-dead-letter-exchange": exchange}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    declare = QueueDeclare(queue=f"d{number}", arguments=Table(arguments))
    return [declare, (BasicPublish(routing_key=f"d{number}"), {})]


def alternate(number: int, exchange: str, key: str) -> list[Any]:
    declare = ExchangeDeclare(exchange=f"x{number}", type="direct", arguments=Table({"alternate-exchange": exchange}))
    return [declare, (BasicPublish(exchange=f"x{number}", routing_key=key), {})]


TO_MINE = BasicPublish(routing_key="d0")
ATTACKS: dict[str, list[Any]] = {
    "its exchange": [(BasicPublish(exchange="b:e", routing_key="k"), {})],
    "its queue": [(BasicPublish(routing_key="b:q"), {}), (BasicPublish(routing_key="b:all"), {})],
    "copies": [QueueDeclare(queue="d0"), (TO_MINE, copied("b:q")), (TO_MINE, copied("b:q", name="BCC"))],
    "copies twice": [
        QueueDeclare(queue="d0"),
        (TO_MINE, copied("d0", "b:q")),
        (TO_MINE, copied("d0", "b:q", name="BCC")),
    ],
    "dead letters": dead(1, "b:e"),
    "dead letters to its queue": dead(2, "", "b:q"),
    "dead letters with their own key": [
        *dead(3, ""),
        QueueBind(queue="d3", exchange="mine"),
        (BasicPublish(exchange="mine", routing_key="b:q"), {}),
    ],
    "an alternate exchange": alternate(1, "b:e", "k"),
    "the default one as the alternate": alternate(2, "", "b:q"),
    "an exchange bound to its own": [ExchangeBind(source="mine", destination="b:e")],
    "an exchange bound from its own": [ExchangeBind(source="b:e", destination="mine")],
    "its queue bound": [QueueBind(queue="b:q", exchange="mine")],
    "its exchange bound": [QueueBind(queue="q", exchange="b:e", routing_key="#")],
    "its queue read": [BasicGet(queue="b:q")],
    "its queue consumed": [BasicConsume(queue="b:all")],
    "its queue purged": [QueuePurge(queue="b:q")],
    "its queue looked at": [QueueDeclare(queue="b:q", passive=True)],
    "its names with line breaks": [QueueDeclare(queue="\nb:q", passive=True)],
    "its exchange looked at": [ExchangeDeclare(exchange="b:e", type="topic", passive=True)],
    "a key that is its queue's": [
        QueueBind(queue="q", exchange="mine"),
        (BasicPublish(exchange="mine", routing_key="b:q"), copied("b:q")),
        BasicGet(queue="q", no_ack=True),
    ],
    "what is common": [QueueBind(queue="q", exchange="amq.topic", routing_key="#")],
    "what is common, published to": [(BasicPublish(exchange="amq.fanout"), {})],
    "what is common, for dead letters": dead(4, "amq.topic", "k"),
    "what is common, as the alternate": alternate(3, "amq.topic", "k"),
    "what is common, bound": [ExchangeBind(source="amq.topic", destination="mine")],
    "the trace of all": [QueueBind(queue="q", exchange="amq.rabbitmq.trace", routing_key="#")],
}
PASS = {
    "its queue",
    "copies",
    "copies twice",
    "blind copies twice",
    "dead letters",
    "dead letters to its queue",
    "an alternate exchange",
}
PASS |= {"a key that is its queue's"}
"""Attacks that are not refused, since they lead nowhere."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_never_reaches_the_other(attack: str, tenants: tuple[Tenant, Tenant]) -> None:
    a, b = tenants
    b.channel.publish("e", "k", b"b's own")
    refusal = a.error_of(*ATTACKS[attack])
    assert (refusal == "") is (attack in PASS), refusal
    assert not refusal or refusal.startswith(("channel 403", "channel 404")), refusal
    assert "b:" not in refusal.replace("'b:", "").replace("\nb:", ""), "names are the client's own"
    a.error_of(QueueDeclare(queue="later"), QueueDelete(queue="later"))
    assert b.channel.call(QueueDeclare(queue="q", passive=True)).message_count == 0
    got = until(lambda: _get(b.channel, "all"), "its own")
    assert got == b"b's own"
    assert _get(b.channel, "all") is None
    assert _get(a.channel, "all") is None


def _get(channel: Channel, queue: str) -> bytes | None:
    channel.send(BasicGet(queue=queue, no_ack=True))
    received = channel.next()
    return received.body if received.method.name == "basic.get-ok" else None


def test_each_sees_the_names_that_it_uses(tenants: tuple[Tenant, Tenant]) -> None:
    a, _ = tenants
    channel = a.channel
    arguments = Table({"x-message-ttl": 1, "x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "dead"})
    channel.call(QueueDeclare(queue="d8", arguments=arguments))
    channel.publish("", "d8", b"one", reply_to="q")
    got = until(lambda: _received(channel, "all"), "the dead letter")
    assert (got.method.exchange, got.method.routing_key, got.properties.reply_to) == ("e", "dead", "q")
    [death] = got.headers["x-death"]
    assert (death["queue"], death["exchange"], death["routing-keys"]) == ("d8", "", ["d8"])
    assert (got.headers["x-first-death-queue"], got.headers["x-first-death-exchange"]) == ("d8", "")
    channel.publish("", "none", b"back", mandatory=True)
    returned = channel.wait_for(BasicReturn)
    assert (returned.method.exchange, returned.method.routing_key) == ("", "none")
    assert channel.call(BasicConsume(queue="q", consumer_tag="me")).consumer_tag == "me"
    channel.publish("", "q", b"two")
    delivered = channel.wait_for(BasicDeliver)
    assert (delivered.method.consumer_tag, delivered.method.routing_key) == ("me", "q")
    channel.call(BasicCancel("me"))
    channel.call(QueuePurge(queue="q"))
    named = channel.call(QueueDeclare(queue="", exclusive=True)).queue
    assert named.startswith("amq.gen-")
    channel.call(QueueBind(queue="", exchange="e", routing_key="mine"))
    channel.publish("e", "mine", b"three")
    assert until(lambda: _get(channel, named), "what was bound") == b"three"
    assert _get(channel, "all") == b"three"


def _received(channel: Channel, queue: str) -> Any:
    channel.send(BasicGet(queue=queue, no_ack=True))
    received = channel.next()
    return received if received.method.name == "basic.get-ok" else None
