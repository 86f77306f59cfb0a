"""Properties of queues in which a later RabbitMQ differs."""

from __future__ import annotations

from amqproxy.rabbitmq.declared_queue import QUEUE_USES, DeclaredQueue
from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES


def test_each_use_has_an_incompatibility() -> None:
    assert QUEUE_USES.keys() <= INCOMPATIBILITIES.keys()


def test_a_durable_queue_without_arguments_has_none() -> None:
    assert not any(use(DeclaredQueue(True, False, {})) for use in QUEUE_USES.values())


def test_an_argument_is_shown_with_its_value() -> None:
    queue = DeclaredQueue(True, False, {"x-queue-mode": "lazy"})
    assert [text for use in QUEUE_USES.values() if (text := use(queue))] == ["with x-queue-mode lazy"]
    assert queue.type == "classic"
