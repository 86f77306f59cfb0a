"""All that happens is reported to all observers."""

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    ExchangeDeclare,
    ExchangeDelete,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.events import BrokerEvent, EventDispatcher
from amqproxy.broker.queues.policies import make_policy
from tests.broker.client import connected, noted


def test_what_happens() -> None:
    broker = Broker()
    events: list[BrokerEvent] = []
    broker.events.observers.append(events.append)
    client = connected(broker)
    client.declare("q")
    client.ask(ExchangeDeclare(exchange="x", auto_delete=True))
    client.bind("q", "x", "k")
    client.publish("x", "k")
    client.publish("x", "nowhere", mandatory=True)
    client.ask(QueueUnbind(queue="q", exchange="x", routing_key="k"))
    client.ask(ExchangeDelete(exchange="x"))
    client.ask(QueueDelete(queue="q"))
    client.connection.lose(client.now)
    names = [event.name for event in events]
    wanted = [
        "connection.created",
        "channel.created",
        "queue.created",
        "exchange.created",
        "binding.created",
        "message.published",
        "message.published",
        "message.returned",
        "binding.deleted",
        "exchange.deleted",
        "queue.deleted",
        "channel.closed",
        "connection.closed",
    ]
    assert [name for name in names if name in wanted] == wanted
    assert {event.vhost for event in events} == {"/"}


def test_a_publish_is_reported_with_its_queues() -> None:
    broker = Broker()
    client = connected(broker)
    client.declare("q")
    events: list[BrokerEvent] = []
    broker.events.observers.append(events.append)
    client.publish("", "q", b"x")
    (event,) = [event for event in events if event.name == "message.published"]
    assert event.subject.body == b"x"
    assert [queue.name for queue in event.details["queues"]] == ["q"]


def test_what_operators_do() -> None:
    broker = Broker()
    events: list[BrokerEvent] = []
    broker.events.observers.append(events.append)
    broker.add_vhost("v")
    broker.add_vhost("v")
    broker.add_user(User("u", ""))
    broker.set_alarm("memory", True, 0.0)
    broker.set_alarm("memory", True, 0.0)
    broker.set_alarm("memory", False, 0.0)
    assert broker.delete_user("u", 0.0)
    assert not broker.delete_user("u", 0.0)
    assert broker.delete_vhost("v", 0.0)
    assert not broker.delete_vhost("v", 0.0)
    assert [event.name for event in events] == [
        "vhost.created",
        "user.created",
        "alarm.set",
        "alarm.cleared",
        "user.deleted",
        "vhost.deleted",
    ]


def test_what_becomes_of_a_message() -> None:
    broker = Broker()
    client = connected(broker)
    client.declare("q")
    events: list[BrokerEvent] = []
    broker.events.observers.append(events.append)
    client.ask(BasicConsume(queue="q", consumer_tag="c"))
    client.publish("", "q")
    client.send(1, BasicNack(1, requeue=True))
    client.send(1, BasicAck(2))
    client.send(1, BasicCancel("c"))
    client.publish("", "q")
    client.send(1, BasicGet(queue="q", no_ack=True))
    assert [(event.name, event.details.get("outcome"), event.details.get("tag")) for event in events] == [
        ("consumer.created", None, None),
        ("message.published", None, None),
        ("message.delivered", None, 1),
        ("message.settled", "requeue", None),
        ("message.delivered", None, 2),
        ("message.settled", "ack", None),
        ("consumer.deleted", None, None),
        ("message.published", None, None),
        ("message.delivered", None, 3),
    ]


def test_what_a_queue_has_no_more_use_for() -> None:
    """Whether it has a dead-letter exchange or not."""
    broker = Broker()
    client = connected(broker)
    client.declare("q", arguments={"x-max-length": 1})
    client.publish("", "q", b"1")
    events: list[BrokerEvent] = []
    broker.events.observers.append(events.append)
    client.publish("", "q", b"2")
    client.send(1, BasicGet(queue="q"))
    client.send(1, BasicNack(1, requeue=False))
    client.publish("", "q", b"3", expiration="0")
    client.publish("", "q", b"4")
    client.ask(QueuePurge(queue="q"))
    found = [event for event in events if event.name in ("message.dropped", "queue.purged")]
    assert [(event.subject.body, event.details["reason"], event.details["queue"].name) for event in found[:-1]] == [
        (b"1", "maxlen", "q"),
        (b"2", "rejected", "q"),
        (b"3", "expired", "q"),
    ]
    assert (found[-1].name, found[-1].subject.name, found[-1].details) == ("queue.purged", "q", {"count": 1})


def test_policies() -> None:
    vhost = Broker().vhosts["/"]
    events: list[BrokerEvent] = []
    vhost.events.observers.append(events.append)
    vhost.set_policy(make_policy("p", ".", {"max-length": 1}), 0.0)
    vhost.clear_policy("p", 0.0)
    vhost.clear_policy("p", 0.0)
    assert [(event.name, event.subject.name) for event in events] == [("policy.set", "p"), ("policy.cleared", "p")]


def test_an_observer_that_fails_is_its_own_trouble() -> None:
    """The others are notified all the same, what happens goes on, and the failure is reported once each time."""
    broker = Broker()
    failures = noted(broker)
    reported: list[str] = []

    def fails(event: BrokerEvent) -> None:
        raise RuntimeError(event.name)

    broker.events.observers += [fails, lambda event: reported.append(event.name)]
    broker.events.recorders += [fails, lambda event: reported.append(event.name)]
    client = connected(broker)
    reported.clear()
    failures.clear()
    client.declare("q")
    assert reported == 2 * ["queue.created"]
    assert failures == 2 * [("observer failed", {"of": "queue.created", "reason": "RuntimeError('queue.created')"})]


def test_a_failure_that_cannot_be_reported_is_counted() -> None:
    def fails(event: str, failure: Exception, **fields: object) -> None:
        raise OSError("the log's disk is full")

    events = EventDispatcher()
    events.on_failure = fails
    with events.contained("it failed"):
        raise RuntimeError("on purpose")
    assert events.failures == 1
