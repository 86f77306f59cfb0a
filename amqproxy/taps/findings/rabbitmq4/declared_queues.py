"""Queues that a later RabbitMQ does not declare as they are."""

from __future__ import annotations

from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.rabbitmq.declared_queue import QUEUE_USES, DeclaredQueue
from amqproxy.rabbitmq.incompatibility import (
    CONSUMER_TIMEOUT,
    QUEUE_MASTER_LOCATOR,
    QUEUE_MODE,
    QUEUE_VERSION,
    QUORUM_BYTES,
    TRANSIENT_QUEUE,
)
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import UpgradeDetector
from amqproxy.taps.trace.events import RequestAnswered, RequestSent


class DeclareDetector(UpgradeDetector):
    """Base of the detectors of queues by their properties and arguments."""

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if not isinstance(request, QueueDeclare) or request.passive:
            return None
        queue = DeclaredQueue(request.durable, request.exclusive, request.arguments)
        use = QUEUE_USES[self.kind](queue)
        named = f"queue {request.queue}" if request.queue else "a queue named by the broker"
        return None if use is None else self.advice(f"{named} is declared {use}")


class TransientQueue(DeclareDetector):
    """A queue is neither durable nor exclusive."""

    incompatibility = TRANSIENT_QUEUE


class QueueVersion(DeclareDetector):
    """A classic queue of version 1 is declared."""

    incompatibility = QUEUE_VERSION


class QueueMasterLocator(DeclareDetector):
    """A queue is declared with x-queue-master-locator."""

    incompatibility = QUEUE_MASTER_LOCATOR


class QueueMode(DeclareDetector):
    """A queue is declared with x-queue-mode."""

    incompatibility = QUEUE_MODE


class ClassicConsumerTimeout(DeclareDetector):
    """A classic queue is declared with x-consumer-timeout."""

    incompatibility = CONSUMER_TIMEOUT


class QuorumLengthBytes(DeclareDetector):
    """A quorum queue is declared with x-max-length-bytes."""

    incompatibility = QUORUM_BYTES
