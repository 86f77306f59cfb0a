"""The firehose: RabbitMQ 3.10's traces of a publish and of a delivery, while it is on."""

from amqproxy.amqp091.methods import BasicConsume, BasicGet
from amqproxy.amqp091.wire import Item, Table
from amqproxy.broker.broker import Broker
from tests.broker.client import Received, connected


def traced(*, with_headers: bool) -> list[Received]:
    broker = Broker(node="rabbit@here")
    watcher, client = connected(broker), connected(broker)
    watcher.declare("watch")
    watcher.bind("watch", "amq.rabbitmq.trace", "#")
    client.declare("q")
    client.bind("q", "amq.fanout")
    broker.vhosts["/"].is_traced = True
    headers = {"headers": {"a": 1, "CC": ["c"], "BCC": ["d"]}} if with_headers else {}
    client.publish("amq.fanout", "k", b"hello", message_id="m", delivery_mode=2, **headers)
    client.send(1, BasicGet(queue="q"))
    client.publish("", "nowhere")
    broker.vhosts["/"].is_traced = False
    client.publish("", "nowhere")
    watcher.send(1, BasicConsume(queue="watch", no_ack=True))
    return watcher.receive()[1:]


def test_a_publish_and_a_get() -> None:
    published, delivered, lost = traced(with_headers=True)
    assert [each.method.routing_key for each in (published, delivered, lost)] == [
        "publish.amq.fanout",
        "deliver.q",
        "publish.",
    ]
    assert {each.method.exchange for each in (published, delivered, lost)} == {"amq.rabbitmq.trace"}
    assert (published.body, delivered.body, lost.body) == (b"hello", b"hello", b"")
    places = {
        "exchange_name": "amq.fanout",
        "routing_keys": ["k", "c", "d"],
        "properties": {"headers": {"a": 1, "CC": ["c"]}, "delivery_mode": 2, "message_id": "m"},
        "node": "rabbit@here",
        "vhost": "/",
        "connection": "client -> broker",
        "channel": 1,
        "user": "guest",
    }
    assert published.properties.headers == {**places, "routed_queues": ["q"]}
    assert delivered.properties.headers == {**places, "redelivered": 0}
    assert lost.properties.headers is not None
    assert lost.properties.headers["routed_queues"] == ["nowhere"]
    assert lost.properties.headers["properties"] == {}


def test_wire_types() -> None:
    published, *_ = traced(with_headers=False)
    assert published.properties.headers is not None
    fields = {each.name: each.type for each in published.properties.headers.fields}
    assert fields["routing_keys"] == fields["routed_queues"] == "A"
    assert fields["channel"] == "I"
    properties = published.properties.headers["properties"]
    assert isinstance(properties, Table)
    assert {each.name: Item(each.type, each.value) for each in properties.fields} == {
        "delivery_mode": Item("I", 2),
        "message_id": Item("S", "m"),
    }


def test_what_the_firehose_delivers_is_not_traced_again() -> None:
    broker = Broker()
    watcher = connected(broker)
    watcher.declare("watch")
    watcher.bind("watch", "amq.rabbitmq.trace", "#")
    watcher.send(1, BasicConsume(queue="watch", no_ack=True))
    broker.vhosts["/"].is_traced = True
    watcher.receive()
    assert watcher.publish("amq.direct", "k") == "basic.deliver"
    assert watcher.transcript() == ""
