"""What is left in a queue that goes."""

from __future__ import annotations

from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from tests.broker.yard import message

NOW = 5.0


def declared(vhost: VirtualHost, name: str, arguments: dict[str, object]) -> Queue:
    queue = vhost.declare_queue(
        name, None, durable=False, exclusive=False, auto_delete=False, arguments=Table(arguments), now=NOW
    )
    for body in "abc":
        queue.publish(message(body), NOW)
    return queue


def left(queue: Queue) -> list[bytes]:
    return [each.body for each in queue]


def test_it_goes_to_the_alternate_exchange_in_its_order() -> None:
    vhost = VirtualHost("v")
    vhost.work.quantum.limit(8)
    queue = declared(vhost, "q", {"x-dead-letter-exchange": "amq.fanout"})
    other = vhost.declare_queue(
        "o", None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=NOW
    )
    vhost.bind(vhost.exchanges["amq.fanout"], other, "", Table())
    vhost.work.do(orphaning(vhost, queue, NOW), NOW)
    assert vhost.work
    while vhost.work:
        vhost.work.go_on(NOW)
    assert left(queue) == []
    assert left(other) == [b"a", b"b", b"c"]
    assert {each.properties.headers["x-death"][0]["reason"] for each in other} == {"deleted"}


def test_without_one_it_stays() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q", {})
    assert list(orphaning(vhost, queue, NOW)) == []
    assert left(queue) == [b"a", b"b", b"c"]


def test_a_queue_that_is_gone_has_none() -> None:
    vhost = VirtualHost("v")
    queue = declared(vhost, "q", {"x-dead-letter-exchange": "amq.fanout"})
    vhost.remove_queue(queue)
    assert list(orphaning(vhost, queue, NOW)) == []
