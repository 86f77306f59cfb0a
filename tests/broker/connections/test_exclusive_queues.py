"""Exclusive queues whose owner is gone."""

from __future__ import annotations

from collections.abc import Generator

from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.exclusive_queues import removing
from amqproxy.broker.queues.queue import Queue

NOW = 1000.0


def test_each_is_emptied_and_removed_in_order_whatever_happens_to_another() -> None:
    vhost = Broker().vhosts["/"]
    queues = [
        vhost.declare_queue(name, None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=NOW)
        for name in "abc"
    ]
    vhost.work.quantum.limit(step=16)
    seen: list[str] = []

    def emptying(queue: Queue, now: float) -> Generator[None, float, float]:
        seen.append(queue.name)
        if queue.name == "b":
            raise RuntimeError("on purpose")
        yield
        return now

    left = dict.fromkeys(queues)
    vhost.work.do(removing(vhost, left, "client", NOW, emptying), NOW)
    assert seen == ["a"]
    while vhost.work:
        vhost.work.go_on(NOW)
    assert (seen, left) == (["a", "b", "c"], {})
    assert [queue.is_deleted for queue in queues] == [True, False, True]
    assert vhost.events.failures == 1
