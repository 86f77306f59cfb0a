"""x-modulus-hash: every message to one place, by its key, however many places there are."""

from amqproxy.amqp091.methods import ExchangeDeclare, QueueBind, QueueDeclare, QueueUnbind
from amqproxy.broker.broker import Broker
from amqproxy.rabbitmq.profile import PROFILES
from tests.broker.client import Client, connected


def hashing(queues: list[str]) -> Client:
    client = connected(Broker(profile=PROFILES["4.3"]))
    client.ask(ExchangeDeclare(exchange="x", type="x-modulus-hash"))
    for queue in queues:
        client.answers(QueueDeclare(queue=queue), QueueBind(queue=queue, exchange="x"))
    return client


def counts(client: Client) -> dict[str, int]:
    for key in range(60):
        client.publish("x", str(key))
    queues = client.broker.vhosts["/"].queues
    found = {name: queue.message_count for name, queue in sorted(queues.items()) if queue.message_count}
    for name in found:
        queues[name].purge()
    return found


def test_only_the_names_of_the_places_count() -> None:
    one, other = hashing(["a", "b", "c"]), hashing(["c", "b", "a"])
    assert sum(counts(one).values()) == 60
    assert counts(one) == counts(other)
    assert len(counts(one)) == 3


def test_places_are_sorted_after_changes_only_which_shortens_the_turn() -> None:
    client = hashing([str(number) for number in range(50)])
    exchange = client.broker.vhosts["/"].exchanges["x"]
    visited = []
    for key in ("1", "2", "3"):
        client.publish("x", key)
        visited.append(exchange.visited)
    client.ask(QueueUnbind(queue="7", exchange="x"))
    client.publish("x", "4")
    assert [*visited, exchange.visited] == [50, 0, 0, 49]
    assert "7" not in counts(client)
