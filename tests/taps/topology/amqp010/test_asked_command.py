"""Commands of AMQP 0-10, from which the topology follows once the broker has completed them."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    MessageCancel,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    TxSelect,
)
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import QueueDeclare as QueueDeclare091
from amqproxy.taps.topology.amqp010.asked_command import OBSERVED_COMMANDS, AskedCommand
from amqproxy.taps.topology.client_requests import DECLARED_COST, MAX_BYTES
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.taps.topology.observed_client import ObservedClient, entries, names


@pytest.fixture
def topology() -> ObservedTopology:
    return ObservedTopology()


@pytest.fixture
def client(topology: ObservedTopology) -> ObservedClient:
    return ObservedClient(topology)


def asked(client: ObservedClient, command: Method, channel: int = 1) -> AskedCommand | None:
    assert isinstance(command, OBSERVED_COMMANDS)
    return AskedCommand.of(client.requests, client, channel, command, 100)


def ask(client: ObservedClient, *commands: Method, channel: int = 1) -> None:
    """Commands that the broker completes at once."""
    for command in commands:
        request = asked(client, command, channel)
        assert request is not None
        request.complete()


def test_what_is_asked_for_counts_once_it_is_complete(topology: ObservedTopology, client: ObservedClient) -> None:
    orders, refused = asked(client, QueueDeclare("orders", durable=True)), asked(client, QueueDeclare("refused"))
    assert orders is not None
    assert refused is not None
    assert names(topology) == []
    assert client.requests.memory_used > 1000
    orders.complete()
    refused.drop()
    assert client.requests.memory_used == DECLARED_COST
    [queue] = entries(topology)
    assert queue["declared_by"] == {"session": 1, "user": "guest", "client": "10.0.0.1:4711"}
    assert {"name": "orders", "durable": True, "exclusive": False}.items() <= queue.items()


def test_what_is_made_and_deleted(topology: ObservedTopology, client: ObservedClient) -> None:
    ask(
        client,
        ExchangeDeclare("events", "topic", alternate_exchange="lost"),
        QueueDeclare("orders", alternate_exchange="lost"),
        ExchangeBind("orders", "events", "a.#"),
    )
    assert names(topology) == ["exchange events", "queue orders", "events -a.#-> orders"]
    exchange, queue, _ = entries(topology)
    assert exchange["arguments"] == {"alternate-exchange": "lost"}
    assert queue["arguments"] == {"x-dead-letter-exchange": "lost"}
    ask(client, ExchangeUnbind("orders", "events", "a.#"), ExchangeDelete("events"), QueueDelete("orders"))
    assert names(topology) == []


def test_a_binding_is_known_by_its_key_whatever_its_arguments(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    ask(client, ExchangeBind("q", "amq.match", "k", Map({"x-match": "all", "colour": "red"})))
    *_, binding = entries(topology)
    assert binding["arguments"] == {"x-match": "all", "colour": "red"}
    ask(client, ExchangeUnbind("q", "amq.match", "k"))
    assert names(topology) == ["exchange amq.match", "queue q"], "they are referred to"


def test_subscriptions_are_consumers_until_they_are_cancelled(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    ask(client, MessageSubscribe("q", "a"), MessageSubscribe("q", "b", arguments=Map({"x": 1})))
    assert [each["consumers"] for each in entries(topology)] == [2]
    consumer = client.requests.channels[1].consumers["b"]
    assert (consumer.shown_queue, consumer.consume.arguments.values_by_name) == ("q", {"x": 1})
    ask(client, MessageCancel("a"), MessageCancel("unknown"))
    assert [each["consumers"] for each in entries(topology)] == [1]
    ask(client, MessageCancel("b"), channel=2)
    assert [each["consumers"] for each in entries(topology)] == [1], "it is another session's"
    client.requests.end_session(client, 1)
    assert [each["consumers"] for each in entries(topology)] == [0]
    assert (client.requests.channels, client.requests.memory_used) == ({}, 0)


def test_exclusive_queues_that_are_deleted_automatically_go_with_their_session(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    ask(
        client,
        QueueDeclare("temporary", exclusive=True, auto_delete=True),
        QueueDeclare("kept", exclusive=True),
        QueueDeclare("auto", auto_delete=True),
        *(MessageSubscribe(each, each) for each in ("temporary", "auto")),
        *(MessageCancel(each) for each in ("temporary", "auto")),
    )
    ask(client, QueueDeclare("other", exclusive=True, auto_delete=True), channel=2)
    assert names(topology) == ["queue kept", "queue temporary", "queue other"]
    client.requests.end_session(client, 1)
    assert names(topology, deleted=True) == [
        "queue kept",
        "queue other",
        "queue auto auto-delete",
        "queue temporary exclusive",
    ]
    client.end()
    assert names(topology) == ["queue kept"]
    assert client.requests.memory_used == 0


def test_what_awaits_its_completion_is_bounded(topology: ObservedTopology, client: ObservedClient) -> None:
    held = []
    while (request := asked(client, QueueDeclare("q"))) is not None:
        held.append(request)
    assert len(held) > 1000
    assert client.requests.memory_used <= MAX_BYTES
    for request in held:
        request.drop()
    assert client.requests.memory_used == topology.client_budget.used == 0


def test_people_see_what_rules_leave_of_it(topology: ObservedTopology, client: ObservedClient) -> None:
    client.covering = lambda method: QueueDeclare091(queue="***") if isinstance(method, QueueDeclare091) else None
    ask(client, QueueDeclare("secret"), ExchangeDeclare("hidden"), MessageSubscribe("secret", "hidden"))
    assert names(topology) == ["queue ***"]


def test_other_commands_are_not_asked_about() -> None:
    assert not {QueuePurge, TxSelect} & set(OBSERVED_COMMANDS)
