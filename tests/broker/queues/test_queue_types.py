"""Which queue a declare makes."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import PreconditionFailed, ProtocolError
from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_types import QUEUE_TYPES
from amqproxy.broker.queues.quorum import QuorumQueue
from amqproxy.broker.queues.stream import StreamQueue
from amqproxy.broker.vhost import VirtualHost


def declared(arguments: dict[str, object]) -> Queue:
    return VirtualHost("v").declare_queue(
        "q", None, durable=True, exclusive=False, auto_delete=False, arguments=Table(arguments), now=0.0
    )


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, Queue),
        ({"x-max-length": 5}, Queue),
        ({"x-queue-type": "classic"}, Queue),
        ({"x-queue-type": "quorum"}, QuorumQueue),
        ({"x-queue-type": "stream"}, StreamQueue),
    ],
)
def test_by_its_argument(arguments: dict[str, object], kind: type[Queue]) -> None:
    queue = declared(arguments)
    assert type(queue) is kind
    assert QUEUE_TYPES[queue.type] is kind


@pytest.mark.parametrize("type_", ["", "QuorumQueue", "mirrored", 5])
def test_of_no_type_that_there_is(type_: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        declared({"x-queue-type": type_})
    assert refused.value.code == PreconditionFailed.code
