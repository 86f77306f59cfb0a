"""Message counts of a queue, an exchange, a channel and a virtual host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    ConfirmSelect,
    ExchangeDeclare,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.broker.broker import Broker
from amqproxy.broker.message_counts import COUNTS, MessageCounts
from tests.broker.client import Client, connected


@pytest.fixture
def client() -> Client:
    client = connected()
    client.declare("q")
    client.bind("q", "amq.fanout")
    return client


def counted(counts: MessageCounts) -> dict[str, int]:
    """The counts that are not zero."""
    return {name: count for name, count in zip(COUNTS, counts.values(), strict=True) if count}


def in_queue(client: Client) -> dict[str, int]:
    return counted(client.broker.vhosts["/"].queues["q"].counts)


def in_vhost(client: Client) -> dict[str, int]:
    return counted(client.broker.vhosts["/"].counts)


def in_channel(client: Client) -> dict[str, int]:
    channel = client.connection.channels[1]
    values = channel.publisher.counts.plus(channel.deliveries.counts)
    return {name: count for name, count in zip(COUNTS, values, strict=True) if count}


def test_publishes_with_and_without_a_queue(client: Client) -> None:
    client.ask(ConfirmSelect())
    client.publish("amq.fanout", "")
    client.publish("", "q")
    client.publish("", "none")
    client.publish("", "none", mandatory=True)
    exchanges = client.broker.vhosts["/"].exchanges
    assert counted(exchanges["amq.fanout"].counts) == {"published": 1, "routed": 1}
    assert counted(exchanges[""].counts) == {"published": 3, "routed": 1}
    assert in_queue(client) == {"published": 2}
    assert in_channel(client) == {"published": 4, "confirmed": 4, "returned": 1, "dropped": 1}
    assert in_vhost(client) == in_channel(client) | {"routed": 2}


def test_a_publish_to_many_queues(client: Client) -> None:
    for number in range(100):
        client.declare(f"q{number}")
        client.bind(f"q{number}", "amq.fanout")
    client.publish("amq.fanout", "")
    assert counted(client.broker.vhosts["/"].exchanges["amq.fanout"].counts) == {"published": 1, "routed": 101}
    assert in_queue(client) == {"published": 1}
    assert in_vhost(client) == {"published": 1, "routed": 101}


@pytest.mark.parametrize("no_ack", [False, True])
def test_deliveries_and_gets(client: Client, no_ack: bool) -> None:
    suffix = "_no_ack" if no_ack else ""
    client.publish("", "q")
    client.ask(BasicGet(queue="q", no_ack=no_ack))
    client.ask(BasicGet(queue="q", no_ack=no_ack))
    client.send(1, BasicConsume(queue="q", consumer_tag="c", no_ack=no_ack))
    client.publish("", "q")
    expected = {f"delivered{suffix}": 1, f"got{suffix}": 1, "got_empty": 1}
    if not no_ack:
        client.answers(BasicAck(0, multiple=True))
        expected["acked"] = 2
    assert in_queue(client) == in_channel(client) == {"published": 2, **expected}
    assert in_vhost(client) == {"published": 2, "routed": 2, **expected}


def test_what_comes_back_is_redelivered_and_not_acknowledged(client: Client) -> None:
    client.publish("", "q")
    client.ask(BasicGet(queue="q"))
    client.send(1, BasicNack(1, requeue=True))
    client.ask(BasicGet(queue="q"))
    client.send(1, BasicNack(2, requeue=False))
    assert in_queue(client) == {"published": 1, "got": 2, "redelivered": 1}
    assert in_vhost(client) == in_queue(client) | {"routed": 1}


def test_many_acknowledgements_at_once(client: Client) -> None:
    client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    for _ in range(200):
        client.publish("", "q")
    client.answers(BasicAck(200, multiple=True))
    assert in_queue(client) == in_channel(client) == {"published": 200, "delivered": 200, "acked": 200}


@pytest.mark.parametrize(("end", "count"), [(TxCommit, 2), (TxRollback, 0)])
def test_a_transaction_counts_when_it_is_committed(client: Client, end: Callable[[], TxCommit], count: int) -> None:
    client.ask(TxSelect())
    client.publish("amq.fanout", "")
    client.publish("amq.fanout", "")
    client.ask(end())
    client.rest()
    counts = client.broker.vhosts["/"].exchanges["amq.fanout"].counts
    assert (counts.published, counts.routed, in_queue(client).get("published", 0)) == (count, count, count)


def test_dead_letters_are_not_published(client: Client) -> None:
    client.ask(ExchangeDeclare(exchange="dead", type="fanout"))
    client.declare("short", arguments={"x-max-length": 1, "x-dead-letter-exchange": "dead"})
    client.bind("q", "dead")
    client.publish("", "short")
    client.publish("", "short")
    assert client.depth("q") == 1
    assert in_queue(client) == {}
    assert in_vhost(client) == {"published": 2, "routed": 2}


def test_counts_of_a_broker_outlive_its_virtual_hosts() -> None:
    broker = Broker()
    client = connected(broker)
    client.publish("", "none")
    assert counted(broker.past_counts) == {}
    assert counted(broker.counts) == {"published": 1, "dropped": 1}
    broker.work.quantum.left = 0
    broker.delete_vhost("/", 0.0)
    assert broker.work, "the deletion is not over"
    assert counted(broker.past_counts) == counted(broker.counts) == {"published": 1, "dropped": 1}
    client.rest()
    assert counted(broker.past_counts) == counted(broker.counts) == {"published": 1, "dropped": 1}


def test_churn(client: Client) -> None:
    churn = client.broker.events.churn
    client.declare("q")
    client.channel(2)
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (2, 1, 0)
    client.broker.vhosts["/"].delete_queue("q", None)
    client.connection.lose(client.now, is_gone=True)
    client.rest()
    assert churn.queue_deleted == 1
    assert (churn.connection_created, churn.connection_closed) == (1, 1)
    assert (churn.channel_created, churn.channel_closed) == (2, 2)
