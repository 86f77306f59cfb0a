"""x-local-random: every message to one of the places, by chance."""

from amqproxy.amqp091.methods import ExchangeDeclare, QueueBind, QueueDeclare
from amqproxy.broker.broker import Broker
from amqproxy.rabbitmq.profile import PROFILES
from tests.broker.client import connected


def test_a_message_goes_to_one_place_and_all_count_for_the_turn() -> None:
    client = connected(Broker(profile=PROFILES["4.3"]))
    client.ask(ExchangeDeclare(exchange="x", type="x-local-random"))
    client.publish("x", "")
    vhost = client.broker.vhosts["/"]
    assert vhost.exchanges["x"].visited == 0
    for queue in ("a", "b"):
        client.answers(QueueDeclare(queue=queue), QueueBind(queue=queue, exchange="x"))
    for _ in range(60):
        client.publish("x", "")
    assert sum(queue.message_count for queue in vhost.queues.values()) == 60
    assert all(queue.message_count for queue in vhost.queues.values())
    assert vhost.exchanges["x"].visited == 2
