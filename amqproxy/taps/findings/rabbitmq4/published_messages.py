"""Publishes that a later RabbitMQ refuses or treats differently."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rabbitmq.incompatibility import MANDATORY_REPLY, MESSAGE_SIZE, QUORUM_PRIORITY, REPUBLISHED_DEATHS
from amqproxy.taps.findings.detector import ObservedConnection, on
from amqproxy.taps.findings.rabbitmq4.queues_of import QueuesOf
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import TARGET, UpgradeDetector
from amqproxy.taps.trace.events import MessagePublished, RequestAnswered, RequestSent, encoded_headers

REPLY_TO = "amq.rabbitmq.reply-to."
"""Prefix of the routing keys of direct replies."""


def _place(event: MessagePublished) -> str:
    """Return where a message is published; a queue's name where the default exchange has it."""
    method = event.method
    return f"exchange {method.exchange}" if method.exchange else f"queue {method.routing_key}"


class MessageOverLimit(UpgradeDetector):
    """A message is larger than RabbitMQ 4 takes by default."""

    incompatibility = MESSAGE_SIZE

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        if event.size is None or event.size <= TARGET.message_size or not isinstance(event.method, BasicPublish):
            return None
        return self.advice(f"a message above {TARGET.message_size} bytes is published to {_place(event)}")


class RepublishedDeaths(UpgradeDetector):
    """A dead-lettered message is published again with its x-death."""

    incompatibility = REPUBLISHED_DEATHS

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        headers = event.properties.headers
        if headers is None or b"x-death" not in encoded_headers(event.properties) or not headers.get("x-death"):
            return None
        if not isinstance(event.method, BasicPublish):
            return None
        return self.advice(f"a message with x-death is published to {_place(event)}")


class MandatoryReply(UpgradeDetector):
    """A direct reply is published with mandatory, to have it returned if its requester is gone."""

    incompatibility = MANDATORY_REPLY

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        method = event.method
        if not isinstance(method, BasicPublish) or not method.mandatory or method.exchange:
            return None
        return self.advice("a mandatory direct reply is published") if method.routing_key.startswith(REPLY_TO) else None


class QuorumPriority(UpgradeDetector):
    """A message with a priority is published to a quorum queue."""

    incompatibility = QUORUM_PRIORITY

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._queues = QueuesOf()

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> None:
        self._queues.note(event, lambda queue: queue.type == "quorum")

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        method = event.method
        if method.exchange or method.routing_key not in self._queues or not event.properties.priority:
            return None
        return self.advice(f"a message with a priority is published to the quorum queue {method.routing_key}")
