"""The exchanges, queues and bindings of all clients."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.topology import observed_topology
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.taps.topology.observed_client import ObservedClient, entries, names


class Declaring(ObservedClient):
    """A client that is answered at once."""

    def queue(self, name: str, **options: Any) -> None:
        self.ask(QueueDeclare(queue=name, **options), QueueDeclareOk(name))

    def exchange(self, name: str, **options: Any) -> None:
        self.ask(ExchangeDeclare(exchange=name, **options), ExchangeDeclareOk())

    def bind(self, exchange: str, queue: str, key: str = "k", **arguments: Any) -> None:
        bind = QueueBind(queue=queue, exchange=exchange, routing_key=key, arguments=Table(arguments))
        self.ask(bind, QueueBindOk())

    def unbind(self, exchange: str, queue: str, key: str = "k", **arguments: Any) -> None:
        unbind = QueueUnbind(queue=queue, exchange=exchange, routing_key=key, arguments=Table(arguments))
        self.ask(unbind, QueueUnbindOk())

    def chain(self, source: str, destination: str) -> None:
        self.ask(ExchangeBind(source=source, destination=destination, routing_key="k"), ExchangeBindOk())


@pytest.fixture
def topology() -> ObservedTopology:
    return ObservedTopology()


@pytest.fixture
def client(topology: ObservedTopology) -> Declaring:
    return Declaring(topology)


def test_what_is_known_of_each_kind(topology: ObservedTopology, client: Declaring) -> None:
    client.exchange("x", type="topic", durable=True, arguments=Table({"alternate-exchange": "ae"}))
    client.queue("q", durable=True, arguments=Table({"x-max-length": 5}))
    client.bind("x", "q", "a.*", **{"x-match": "all"})
    by = {"session": 1, "user": "guest", "client": "10.0.0.1:4711"}
    assert entries(topology) == [
        {
            "kind": "exchange",
            "vhost": "/",
            "state": "declared",
            "declared_by": by,
            "declared_at": 2.0,
            "seen_at": 6.0,
            "name": "x",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "ae"},
        },
        {
            "kind": "queue",
            "vhost": "/",
            "state": "declared",
            "declared_by": by,
            "declared_at": 4.0,
            "seen_at": 6.0,
            "name": "q",
            "durable": True,
            "exclusive": False,
            "auto_delete": False,
            "arguments": {"x-max-length": 5},
            "consumers": 0,
        },
        {
            "kind": "binding",
            "vhost": "/",
            "state": "declared",
            "declared_by": by,
            "declared_at": 6.0,
            "seen_at": 6.0,
            "source": "x",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.*",
            "arguments": {"x-match": "all"},
        },
    ]


def test_what_was_there_before(topology: ObservedTopology, client: Declaring) -> None:
    client.queue("passive", passive=True)
    client.ask(BasicConsume(queue="consumed", consumer_tag="t"), BasicConsumeOk("t"))
    client.chain("amq.topic", "amq.fanout")
    found = {each.get("name"): each for each in entries(topology)}
    assert set(found) == {"passive", "consumed", "amq.topic", "amq.fanout", None}
    assert found["passive"]["declared_by"] is found["passive"]["durable"] is found["amq.topic"]["type"] is None
    client.queue("consumed", durable=True)
    [consumed] = [each for each in entries(topology) if each.get("name") == "consumed"]
    assert (consumed["durable"], consumed["consumers"], consumed["declared_by"]["session"]) == (True, 1, 1)


def test_whoever_declares_first_has_declared_it(topology: ObservedTopology, client: Declaring) -> None:
    client.queue("q")
    other = Declaring(topology, 2, "other")
    other.now = 100.0
    other.queue("q")
    [queue] = entries(topology)
    assert (queue["declared_by"]["user"], queue["declared_at"], queue["seen_at"]) == ("guest", 2.0, 102.0)


def test_virtual_hosts_are_apart(topology: ObservedTopology, client: Declaring) -> None:
    other = Declaring(topology, 2, vhost="other")
    client.queue("q")
    other.queue("q")
    other.ask(QueueDelete(queue="q"), QueueDeleteOk(0))
    assert names(topology) == names(topology, vhost="/") == ["queue q"]
    assert names(topology, vhost="other") == []
    assert names(topology, vhost="other", deleted=True) == ["queue q deleted"]


def test_what_a_client_deletes(topology: ObservedTopology, client: Declaring) -> None:
    client.exchange("x")
    client.queue("q")
    client.bind("x", "q", "1")
    client.bind("x", "q", "2")
    client.bind("x", "q", "2", a=1)
    client.unbind("x", "q", "2")
    assert names(topology)[2:] == ["x -1-> q", "x -2-> q"]
    assert entries(topology)[-1]["arguments"] == {"a": 1}
    other = Declaring(topology, 2, "other")
    other.ask(QueueDelete(queue="q"), QueueDeleteOk(0))
    assert names(topology, deleted=True) == ["exchange x", "x -2-> q unbound", "queue q deleted"]
    [*_, queue] = entries(topology, deleted=True)
    assert (queue["deleted_by"]["user"], queue["declared_by"]["user"]) == ("other", "guest")
    other.ask(ExchangeDelete(exchange="x"), ExchangeDeleteOk())
    other.ask(ExchangeDelete(exchange="never"), ExchangeDeleteOk())
    assert names(topology) == []
    assert len(topology) == 0


def test_bindings_go_with_either_end(topology: ObservedTopology, client: Declaring) -> None:
    client.chain("a", "b")
    client.chain("b", "c")
    client.chain("c", "a")
    client.ask(ExchangeDelete(exchange="b"), ExchangeDeleteOk())
    assert names(topology) == ["exchange c", "exchange a", "c -k-> a"]
    client.ask(ExchangeUnbind(source="c", destination="a", routing_key="k"), ExchangeUnbindOk())
    assert names(topology) == ["exchange c", "exchange a"]


def test_what_is_deleted_with_the_last_that_used_it(topology: ObservedTopology, client: Declaring) -> None:
    client.queue("q", auto_delete=True)
    client.exchange("x", auto_delete=True)
    client.exchange("y", auto_delete=True)
    client.chain("y", "x")
    client.bind("x", "q", "1")
    client.bind("x", "q", "2")
    client.ask(BasicConsume(queue="q", consumer_tag="t"), BasicConsumeOk("t"))
    client.unbind("x", "q", "1")
    assert len(names(topology)) == 5
    client.ask(BasicCancel("t"), BasicCancelOk("t"))
    assert names(topology) == []
    assert names(topology, deleted=True) == [
        "x -1-> q unbound",
        "queue q auto-delete",
        "exchange x auto-delete",
        "exchange y auto-delete",
    ]


def test_an_exchange_that_is_bound_to_itself(topology: ObservedTopology, client: Declaring) -> None:
    client.exchange("a")
    used = topology.memory_used
    client.chain("a", "a")
    client.exchange("b")
    client.chain("a", "b")
    client.ask(ExchangeDelete(exchange="a"), ExchangeDeleteOk())
    assert names(topology) == ["exchange b"]
    assert topology.memory_used == 2 * used


def test_a_long_chain_of_exchanges_may_go_at_once(topology: ObservedTopology, client: Declaring) -> None:
    for number in range(3000):
        client.exchange(f"x{number}", auto_delete=True)
        if number:
            client.chain(f"x{number}", f"x{number - 1}")
    client.ask(ExchangeDelete(exchange="x0"), ExchangeDeleteOk())
    assert names(topology) == []


def test_those_not_seen_for_longest_are_forgotten(client: Declaring) -> None:
    topology = ObservedTopology(max_objects=3)
    client = Declaring(topology)
    for name in ("a", "b", "c"):
        client.queue(name)
    client.queue("a", passive=True)
    client.queue("d")
    assert names(topology) == ["queue c", "queue a", "queue d"]
    assert topology.forgotten == 1
    client.bind("x", "d")
    client.queue("e")
    client.queue("f")
    client.queue("g")
    assert topology.forgotten == 6
    client.ask(QueueDelete(queue="d"), QueueDeleteOk(0))
    assert names(topology) == ["queue e", "queue f", "queue g"]
    for name in ("e", "f", "g"):
        client.ask(QueueDelete(queue=name), QueueDeleteOk(0))
    assert not topology._bindings_from
    assert not topology._bindings_to


def test_bytes_are_bounded_and_what_is_deleted_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = ObservedTopology(max_bytes=100_000)
    client = Declaring(topology)
    table = Table({"x": "y" * 1000})
    for number in range(50):
        client.queue(str(number), arguments=table)
        if number < 5:
            client.ask(QueueDelete(queue=str(number)), QueueDeleteOk(0))
    assert topology.memory_used <= 100_000
    assert names(topology, deleted=True)[-1] == "queue 49"
    assert len(topology) + topology.forgotten == 45
    for each in names(topology):
        name = each.removeprefix("queue ")
        client.ask(QueueDelete(queue=name), QueueDeleteOk(0))
    monkeypatch.setattr(observed_topology, "MAX_DELETED", 2)
    client.queue("last")
    for name in ("last", "lost"):
        client.queue(name)
        client.ask(QueueDelete(queue=name), QueueDeleteOk(0))
    assert len(topology) == 0


def test_names_that_are_not_text(topology: ObservedTopology, client: Declaring) -> None:
    client.bind("x", "q", "a\udcff")
    assert names(topology)[-1] == "x -a\\udcff-> q"
