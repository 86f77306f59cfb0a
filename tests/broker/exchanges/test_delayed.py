"""x-delayed-message: held until the time has come, then routed by the type it stands for."""

import pytest

from amqproxy.amqp091.methods import BasicGet, ConfirmSelect, ExchangeDeclare, ExchangeDelete
from amqproxy.amqp091.wire import Item, Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.journal import Journal
from amqproxy.rabbitmq.profile import PROFILES
from tests.broker.client import Client, connected


@pytest.fixture
def client() -> Client:
    client = connected()
    client.ask(ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=Table({"x-delayed-type": "topic"})))
    client.declare("q")
    client.bind("q", "x", "a.*")
    return client


@pytest.mark.parametrize("kind", [None, 1, "carousel", "x-delayed-message"])
def test_the_type_it_stands_for_must_be_one(kind: object) -> None:
    arguments = Table({} if kind is None else {"x-delayed-type": kind})
    expected = (
        "channel 406 exchange.declare PRECONDITION_FAILED - "
        "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
    assert connected().answers(ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=arguments)) == expected


@pytest.mark.parametrize(
    ("profile", "kind", "answer"),
    [
        ("3.10", "x-modulus-hash", "channel 406"),
        ("4.0", "x-local-random", "exchange.declare-ok"),
        ("4.0", "x-modulus-hash", "channel 406"),
        ("4.3", "x-modulus-hash", "exchange.declare-ok"),
        ("4.3", "x-consistent-hash", "channel 406"),
    ],
)
def test_the_type_it_stands_for_is_of_the_version_and_its_plugins(profile: str, kind: str, answer: str) -> None:
    broker = Broker(profile=PROFILES[profile], plugins=["rabbitmq_delayed_message_exchange"])
    declare = ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=Table({"x-delayed-type": kind}))
    assert connected(broker).answers(declare).startswith(answer)


@pytest.mark.parametrize("headers", [None, {"x-delay": 0}, {"x-delay": -5}, {"x-delay": "5"}, {"other": 1}])
def test_what_has_no_delay_goes_at_once(client: Client, headers: dict[str, object] | None) -> None:
    client.publish("x", "a.b", headers=headers)
    assert client.depth("q") == 1


def test_each_goes_when_it_is_due(client: Client) -> None:
    for delay in (3000, 1000, 2000):
        client.publish("x", "a.b", str(delay).encode(), headers={"x-delay": Item("l", delay), "z": 1})
    client.publish("x", "b", headers={"x-delay": 5})
    broker = client.broker
    assert client.depth("q") == 0
    assert broker.next_deadline() == client.now + 0.005
    broker.tick(client.now + 1.0)
    assert client.depth("q") == 1
    assert broker.next_deadline() == client.now + 2
    broker.tick(client.now + 5)
    got = []
    for _ in range(3):
        client.send(1, BasicGet(queue="q", no_ack=True))
        got.append(client.receive()[0])
    assert [each.body for each in got] == [b"1000", b"2000", b"3000"]
    assert got[0].properties.headers == {"x-delay": -1000, "z": 1}


def test_what_is_held_goes_with_its_exchange(client: Client) -> None:
    client.publish("x", "a.b", headers={"x-delay": 1000})
    assert [when for when, _, _ in client.broker.vhosts["/"].delayed] == [client.now + 1]
    client.ask(ExchangeDelete(exchange="x"))
    assert len(client.broker.vhosts["/"].delayed) == 0


def test_what_is_held_is_not_returned(client: Client) -> None:
    assert client.publish("x", "nowhere", mandatory=True, headers={"x-delay": 1000}) == ""
    assert client.publish("x", "nowhere", mandatory=True) == "basic.return"


@pytest.mark.parametrize("durable", [True, False])
def test_what_is_held_is_confirmed_once_it_is_kept_if_it_is(durable: bool) -> None:
    journal = Journal()
    broker = Broker()
    broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
    client = connected(broker)
    arguments = Table({"x-delayed-type": "fanout"})
    client.ask(ExchangeDeclare(exchange="x", type="x-delayed-message", durable=durable, arguments=arguments))
    journal.committed(journal.take_batch())
    client.ask(ConfirmSelect())
    assert client.publish("x", "", headers={"x-delay": 5}) == ("" if durable else "basic.ack")
    journal.committed(journal.take_batch())
    assert client.transcript() == ("basic.ack" if durable else "")


def test_what_is_let_go_is_not_safe_before_its_queue_is_on_the_disk() -> None:
    journal = Journal()
    broker = Broker()
    broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
    client = connected(broker)
    arguments = Table({"x-delayed-type": "fanout"})
    client.ask(ExchangeDeclare(exchange="x", type="x-delayed-message", durable=True, arguments=arguments))
    client.declare("q", durable=True)
    client.bind("q", "x")
    client.ask(ConfirmSelect())
    assert client.publish("x", "", headers={"x-delay": 5}, delivery_mode=2) == ""
    broker.tick(client.now + 1)
    assert (client.depth("q"), client.transcript()) == (1, "")
    journal.committed(journal.take_batch())
    assert client.transcript() == "basic.ack"
