"""What is held for too long."""

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicGet, TxSelect
from amqproxy.broker.broker import Broker
from amqproxy.broker.consumer_timeout import INTERVAL, ConsumerTimeout
from tests.broker.client import Client, connected

CLOSED = (
    "channel 406 0.0 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
    "Timeout value used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn more"
)


@pytest.fixture
def client() -> Client:
    """It has a consumer of the queue q, which has had one message."""
    client = connected(Broker(heartbeat=0))
    client.declare("q")
    client.ask(BasicConsume(queue="q", consumer_tag="c"))
    client.publish("", "q", b"first")
    return client


def received_within(client: Client, minutes: float) -> str:
    """What is received until so much later."""
    end = client.now + minutes * 60
    while client.now < end:
        client.now = min(end, client.now + 1)
        client.broker.tick(client.now)
    return client.transcript()


def test_a_channel_is_closed_and_what_it_held_goes_back(client: Client) -> None:
    assert received_within(client, 29.9) == ""
    assert received_within(client, 1.2) == CLOSED
    assert client.broker.vhosts["/"].queues["q"].message_count == 1


def test_what_is_acknowledged_in_time_is_not(client: Client) -> None:
    received_within(client, 29)
    client.publish("", "q", b"second")
    client.send(1, BasicAck(1))
    assert received_within(client, 29) == ""
    assert received_within(client, 4) == CLOSED


def test_a_get_counts_too() -> None:
    client = connected(Broker(heartbeat=0))
    client.declare("q")
    client.publish("", "q")
    client.send(1, BasicGet(queue="q"))
    received_within(client, 0.1)
    assert received_within(client, 32) == CLOSED


def test_what_a_transaction_settles_is_settled(client: Client) -> None:
    client.ask(TxSelect())
    client.send(1, BasicAck(1))
    received_within(client, 0.1)
    assert received_within(client, 100) == ""


def test_it_may_be_otherwise() -> None:
    client = connected(Broker(heartbeat=0, consumer_timeout=None))
    client.declare("q")
    client.publish("", "q")
    client.send(1, BasicGet(queue="q"))
    received_within(client, 0.1)
    assert received_within(client, 100) == ""


def test_it_is_looked_once_a_minute(client: Client) -> None:
    overdue = ConsumerTimeout(1800)
    channel = client.connection.channels[1]
    assert overdue.is_due(5.0)
    look = overdue.find([channel], 5.0)
    assert next(look) == (channel, False)
    assert not overdue.is_due(5.0 + 2 * INTERVAL)  # the one before goes on
    assert list(look) == []
    assert not overdue.is_due(5.0 + INTERVAL - 1)
    assert overdue.is_due(5.0 + INTERVAL)
