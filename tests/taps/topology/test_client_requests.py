"""What one client has asked for, and was answered."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.topology import client_requests
from amqproxy.taps.topology.client_requests import DECLARED_COST, ClientRequests, ConsumerView
from amqproxy.taps.topology.observed_topology import ObservedTopology
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from tests.taps.topology.observed_client import ObservedClient, entries, names


@pytest.fixture
def topology() -> ObservedTopology:
    return ObservedTopology()


@pytest.fixture
def client(topology: ObservedTopology) -> ObservedClient:
    return ObservedClient(topology)


def consumer(client: ObservedClient, tag: str, channel: int = 1) -> ConsumerView:
    return client.requests.channels[channel].consumers[tag]


def test_a_request_counts_when_the_broker_has_answered_it(topology: ObservedTopology, client: ObservedClient) -> None:
    client.client(QueueDeclare(queue="orders"))
    assert names(topology) == []
    client.server(QueueDeclareOk("orders"))
    assert names(topology) == ["queue orders"]


def test_a_request_that_is_refused_does_not_count(topology: ObservedTopology, client: ObservedClient) -> None:
    client.client(QueueDeclare(queue="orders"))
    client.server(ChannelClose(406, "no"))
    client.client(ChannelCloseOk())
    assert names(topology) == []
    assert client.requests.channels == {}
    assert client.requests.memory_used == 0


def test_replies_belong_to_requests_of_their_channel_and_kind(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    client.client(ExchangeDeclare(exchange="a"))
    client.client(QueueDeclare(queue="b"))
    client.client(QueueDeclare(queue="c"), 2)
    client.server(QueueDeclareOk("c"), 2)
    assert names(topology) == ["queue c"]
    client.server(ExchangeDeclareOk())
    client.server(QueueDeclareOk("b"))
    assert names(topology) == ["exchange a", "queue c", "queue b"]


def test_a_name_that_the_broker_has_chosen_and_the_last_queue(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    client.client(QueueDeclare(exclusive=True))
    client.client(QueueBind(exchange="amq.topic", routing_key="a.*"))
    client.client(BasicConsume(consumer_tag="t"))
    client.server(QueueDeclareOk("amq.gen-1"))
    client.server(QueueBindOk())
    client.server(BasicConsumeOk("t"))
    assert names(topology) == ["exchange amq.topic", "queue amq.gen-1", "amq.topic -a.*-> amq.gen-1"]
    assert consumer(client, "t").queue == "amq.gen-1"
    assert entries(topology)[1]["consumers"] == 1


def test_prefetch_is_that_at_the_time_of_the_consume(client: ObservedClient) -> None:
    client.ask(BasicQos(prefetch_count=10), BasicQosOk())
    client.client(BasicConsume(queue="q", consumer_tag="first"))
    client.client(BasicQos(prefetch_count=5))
    client.client(BasicConsume(queue="q", consumer_tag="second"))
    client.client(BasicQos(prefetch_count=100, global_=True))
    client.server(BasicConsumeOk("second"))
    client.server(BasicConsumeOk("first"))
    client.server(BasicQosOk())
    client.server(BasicQosOk())
    assert (consumer(client, "first").prefetch, consumer(client, "second").prefetch) == (10, 5)
    channel = client.requests.channels[1]
    assert (channel.prefetch, channel.global_prefetch, channel.prefetches) == (5, 100, None)


def test_consumers_end(topology: ObservedTopology, client: ObservedClient) -> None:
    for tag in ("a", "b", "c", "d"):
        client.ask(BasicConsume(queue="q", consumer_tag=tag), BasicConsumeOk(tag))
    client.ask(BasicConsume(queue="q", consumer_tag="e"), BasicConsumeOk("e"), 2)
    assert entries(topology)[0]["consumers"] == 5
    client.ask(BasicCancel("a"), BasicCancelOk("a"))
    client.client(BasicCancel("b", no_wait=True))
    client.server(BasicCancel("c", no_wait=True))
    assert list(client.requests.channels[1].consumers) == ["d"]
    client.ask(ChannelClose(200, "bye"), ChannelCloseOk())
    assert list(client.requests.channels) == [2]
    assert entries(topology)[0]["consumers"] == 1
    client.end()
    assert entries(topology)[0]["consumers"] == 0
    assert client.requests.memory_used == topology.client_budget.used == 0


def test_no_wait_is_unsure_until_a_later_request_is_answered(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    client.client(QueueDeclare(queue="a", no_wait=True))
    client.client(QueueBind(queue="a", exchange="x", routing_key="k", no_wait=True))
    assert names(topology) == ["queue a?", "x -k-> a?"]
    client.client(QueueDeclare(queue="b"))
    client.client(QueueDeclare(queue="c", no_wait=True))
    client.server(QueueDeclareOk("b"))
    assert names(topology) == ["exchange x", "queue c?", "queue a", "queue b", "x -k-> a"]
    client.client(QueueDelete(queue="a", no_wait=True))
    assert "queue a?" in names(topology)
    client.ask(ChannelClose(200, "bye"), ChannelCloseOk())
    assert names(topology) == ["exchange x", "queue b", "queue c"]


def test_no_wait_that_is_refused_stays_unsure(topology: ObservedTopology, client: ObservedClient) -> None:
    client.client(QueueDeclare(queue="a", no_wait=True))
    client.server(ChannelClose(406, "no"))
    client.client(ChannelCloseOk())
    client.end()
    assert names(topology) == ["queue a?"]


def test_a_consumer_with_no_wait_counts_at_once(client: ObservedClient) -> None:
    client.client(BasicQos(prefetch_count=3))
    client.client(BasicConsume(queue="q", consumer_tag="t", no_wait=True))
    assert consumer(client, "t").prefetch == 3


def test_direct_replies_are_from_no_queue(topology: ObservedTopology, client: ObservedClient) -> None:
    client.ask(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="t"), BasicConsumeOk("t"))
    assert consumer(client, "t").queue == "amq.rabbitmq.reply-to"
    client.ask(BasicCancel("t"), BasicCancelOk("t"))
    assert names(topology) == []


def declared(client: ObservedClient) -> list[tuple[Method, str | None]]:
    """Return what the client has declared and what exists of it, each with the user who did first, if another."""
    found, _ = client.requests.declarations(client.actor.session)
    return [(decoded(0, each.method), each.user) for each in found]


def test_declarations_are_those_of_the_client_that_still_exist(
    topology: ObservedTopology, client: ObservedClient
) -> None:
    other = ObservedClient(topology, 2, user="other")
    for each in (other, client):
        each.ask(QueueDeclare(queue="q", durable=True), QueueDeclareOk("q"))
    arguments = Table({"x-max-length": 5})
    client.ask(QueueDeclare(arguments=arguments), QueueDeclareOk("amq.gen-1"))
    client.ask(QueueBind(exchange="e", routing_key="k"), QueueBindOk())
    client.ask(ExchangeDeclare(exchange="e", type="topic"), ExchangeDeclareOk())
    client.ask(QueueDeclare(queue="gone"), QueueDeclareOk("gone"))
    other.ask(QueueDelete(queue="gone"), QueueDeleteOk(0))
    client.client(QueueDeclare(queue="unsure", no_wait=True))
    assert declared(client) == [
        (QueueDeclare(queue="q", durable=True), "other"),
        (QueueDeclare(queue="amq.gen-1", arguments=arguments), None),
        (QueueBind(queue="amq.gen-1", exchange="e", routing_key="k"), None),
        (ExchangeDeclare(exchange="e", type="topic"), None),
    ]
    assert [user for _, user in declared(other)] == [None]


def test_declarations_beyond_the_limits_are_counted(
    topology: ObservedTopology, client: ObservedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_requests, "MAX_DECLARATIONS", 3)
    for name in "abcd":
        client.ask(QueueDeclare(queue=name), QueueDeclareOk(name))
    found, left_out = client.requests.declarations(1)
    assert (len(found), left_out) == (3, 1)
    monkeypatch.setattr(client_requests, "MAX_DECLARATION_BYTES", 2 * len(found[0].method))
    found, left_out = client.requests.declarations(1)
    assert (len(found), left_out) == (2, 2)
    ObservedClient(topology, 2).ask(QueueDelete(queue="a"), QueueDeleteOk(0))
    client.ask(QueueDeclare(queue="e"), QueueDeclareOk("e"))
    assert [each.queue for each, _ in declared(client)] == ["b", "c"]


def test_exclusive_queues_end_with_their_client(topology: ObservedTopology, client: ObservedClient) -> None:
    for name in ("a", "b"):
        client.ask(QueueDeclare(queue=name, exclusive=True), QueueDeclareOk(name))
    client.ask(QueueDelete(queue="a"), QueueDeleteOk(0))
    other = ObservedClient(topology, 2)
    other.ask(QueueDeclare(queue="a"), QueueDeclareOk("a"))
    client.end()
    assert names(topology, deleted=True) == ["queue a", "queue a deleted", "queue b exclusive"]
    assert topology.client_budget.used == DECLARED_COST
    other.end()
    assert topology.client_budget.used == 0


def test_a_client_may_have_one_reply_queue_after_another(topology: ObservedTopology, client: ObservedClient) -> None:
    """As many clients do for each of their calls, for hours: what is gone takes no memory."""
    for number in range(3):
        name = f"amq.gen-{number}"
        client.ask(QueueDeclare(exclusive=True, auto_delete=True), QueueDeclareOk(name))
        client.ask(BasicConsume(queue=name, consumer_tag="t"), BasicConsumeOk("t"))
        client.ask(BasicCancel("t"), BasicCancelOk("t"))
        assert client.requests.memory_used == 0
    assert names(topology) == []
    assert names(topology, deleted=True) == [f"queue amq.gen-{number} auto-delete" for number in range(3)]


def test_what_people_may_see(topology: ObservedTopology, client: ObservedClient) -> None:
    def cover(method: object) -> object:
        match method:
            case QueueDeclare() | QueueDeclareOk() | BasicConsume():
                return type(method)(**(method.to_dict() | {"queue": "***"}))
            case ExchangeDeclare():
                return None
        return method

    client.covering = cover  # type: ignore[assignment]
    client.ask(ExchangeDeclare(exchange="secret"), ExchangeDeclareOk())
    client.ask(QueueDeclare(exclusive=True), QueueDeclareOk("amq.gen-secret"))
    client.ask(BasicConsume(consumer_tag="t"), BasicConsumeOk("t"))
    client.ask(QueueBind(exchange="x", routing_key="k"), QueueBindOk())
    assert names(topology) == ["exchange x", "queue ***", "x -k-> ***"]
    assert consumer(client, "t").shown_queue == "***"
    client.end()
    assert names(topology) == ["exchange x"]


def test_memory_is_bounded(topology: ObservedTopology, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ObservedClient(topology)
    client.requests = ClientRequests(topology, max_bytes=10_000)
    for number in range(20):
        tag = str(number)
        client.ask(BasicConsume(queue="q", consumer_tag=tag, arguments=Table({"x": 1})), BasicConsumeOk(tag))
    assert 5 < len(client.requests.channels[1].consumers) < 10
    assert client.requests.memory_used <= 10_000
    client.end()
    assert topology.client_budget.used == 0

    monkeypatch.setattr(client_requests, "MAX_UNSURE", 2)
    other = ObservedClient(topology, 2)
    for number in range(5):
        other.client(QueueDeclare(queue=str(number), no_wait=True))
    other.ask(QueueDeclare(queue="q"), QueueDeclareOk("q"))
    assert [name for name in names(topology) if name.endswith("?")] == ["queue 2?", "queue 3?", "queue 4?"]


def test_all_clients_together_are_bounded(topology: ObservedTopology) -> None:
    topology.client_budget.left = 3_000
    clients = [ObservedClient(topology, number) for number in (1, 2)]
    for each in clients:
        for tag in ("a", "b"):
            each.ask(BasicConsume(queue="q", consumer_tag=tag), BasicConsumeOk(tag))
    kept = [list(each.requests.channels[1].consumers) for each in clients]
    assert kept == [["a", "b"], []]
