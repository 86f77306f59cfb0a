"""Names that a broker made up are found again in another run, in all places of a command."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.replay.names import ConnectionNames, SharedNames


def learned() -> ConnectionNames:
    names = ConnectionNames(SharedNames())
    names.learn(Command(1, QueueDeclareOk(queue="amq.gen-old")), Command(1, QueueDeclareOk(queue="amq.gen-new")))
    names.learn(
        Command(1, BasicConsumeOk(consumer_tag="amq.ctag-old")), Command(1, BasicConsumeOk(consumer_tag="amq.ctag-new"))
    )
    return names


def test_a_queue_that_the_broker_named_is_found_in_all_places() -> None:
    names = learned()
    publish = names.live(Command(2, BasicPublish(routing_key="amq.gen-old"), Properties(reply_to="amq.gen-old"), b"x"))
    assert (publish.method.routing_key, publish.properties.reply_to) == ("amq.gen-new", "amq.gen-new")
    bind = names.live(Command(1, QueueBind(queue="amq.gen-old", exchange="logs", routing_key="amq.gen-old")))
    assert bind.method == QueueBind(queue="amq.gen-new", exchange="logs", routing_key="amq.gen-new")
    back = names.recorded(Command(1, ChannelClose(reply_code=405, reply_text="cannot obtain queue 'amq.gen-new' in")))
    assert back.method.reply_text == "cannot obtain queue 'amq.gen-old' in"


def test_consumer_tags_are_those_of_a_channel() -> None:
    names = learned()
    assert names.live(Command(1, BasicCancel(consumer_tag="amq.ctag-old"))).method.consumer_tag == "amq.ctag-new"
    assert names.live(Command(2, BasicCancel(consumer_tag="amq.ctag-old"))).method.consumer_tag == "amq.ctag-old"
    names.end_channel(1)
    assert names.live(Command(1, BasicCancel(consumer_tag="amq.ctag-old"))).method.consumer_tag == "amq.ctag-old"


def test_the_address_of_a_direct_reply_is_learned_from_the_request() -> None:
    names = learned()

    def request(address: str) -> Command:
        return Command(1, BasicDeliver(routing_key="rpc"), Properties(reply_to=address), b"2")

    names.learn(request("amq.rabbitmq.reply-to.g1.old"), request("amq.rabbitmq.reply-to.g1.new"))
    reply = names.live(Command(1, BasicPublish(routing_key="amq.rabbitmq.reply-to.g1.old"), Properties(), b"4"))
    assert reply.method.routing_key == "amq.rabbitmq.reply-to.g1.new"


def test_a_dead_letter_keeps_the_name_of_a_queue_as_its_routing_key() -> None:
    """Where it was published to the default exchange, and not where a routing key just ends like the suffix."""
    names = ConnectionNames(SharedNames(suffix=".2"))
    for exchange, expected in (("", "orders"), ("logs.2", "orders.2")):
        death = Table({"queue": "orders.2", "exchange": exchange, "routing-keys": ["orders.2"], "reason": "expired"})
        properties = Properties(headers=Table({"x-death": [death]}))
        live = Command(1, BasicDeliver("c", 1, exchange="dead.2", routing_key="orders.2"), properties, b"")
        recorded = names.recorded(live)
        assert (recorded.method.exchange, recorded.method.routing_key) == ("dead", expected)


def test_copies_have_names_of_their_own_but_the_brokers_stay() -> None:
    names = ConnectionNames(SharedNames(suffix=".2"))
    arguments = Table({"x-dead-letter-exchange": "dead"})
    declare = names.live(Command(1, QueueDeclare(queue="orders", arguments=arguments)))
    assert declare.method.queue == "orders.2"
    assert declare.method.arguments["x-dead-letter-exchange"] == "dead.2"
    assert names.recorded(declare).method == QueueDeclare(queue="orders", arguments=arguments)
    topic = Command(1, BasicPublish(exchange="amq.topic", routing_key="orders"), Properties(), b"")
    assert names.live(topic) is topic
    default = Command(1, BasicPublish(routing_key="orders"), Properties(), b"")
    assert names.live(default).method.routing_key == "orders.2"
    assert names.live(Command(1, QueueDeclare(queue="x" * 254))).method.queue.endswith(".2")
