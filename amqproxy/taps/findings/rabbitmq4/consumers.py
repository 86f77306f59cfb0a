"""Consumers that a later RabbitMQ treats differently."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicCancel, BasicConsume, BasicConsumeOk
from amqproxy.rabbitmq.incompatibility import HA_FAILOVER, SINGLE_ACTIVE_CONSUMER
from amqproxy.taps.findings.detector import ObservedConnection, on
from amqproxy.taps.findings.rabbitmq4.queues_of import QueuesOf
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import UpgradeDetector
from amqproxy.taps.trace.events import ChannelClosed, RequestAnswered, RequestSent

MAX_CONSUMERS = 1_000
"""Limit on the remembered consumers of one connection."""


class ConsumerOfMirroredQueue(UpgradeDetector):
    """A consumer asks to be cancelled when a mirrored queue fails over."""

    incompatibility = HA_FAILOVER

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if not isinstance(request, BasicConsume) or request.arguments.get("x-cancel-on-ha-failover") is not True:
            return None
        return self.advice(f"queue {request.queue or 'declared last'} is consumed with x-cancel-on-ha-failover")


class SingleActiveCancelled(UpgradeDetector):
    """A single active consumer is cancelled with deliveries open."""

    incompatibility = SINGLE_ACTIVE_CONSUMER

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._queues = QueuesOf()
        self._consumers: dict[tuple[int, str], str] = {}

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        self._queues.note(event, lambda queue: queue.arguments.get("x-single-active-consumer") is True)
        request = event.request
        if isinstance(request, BasicConsume) and request.queue in self._queues and not request.no_ack:
            reply = event.reply if isinstance(event, RequestAnswered) else None
            tag = reply.consumer_tag if isinstance(reply, BasicConsumeOk) else request.consumer_tag
            if len(self._consumers) < MAX_CONSUMERS:
                self._consumers[event.channel, tag] = request.queue
        elif isinstance(request, BasicCancel):
            queue = self._consumers.pop((event.channel, request.consumer_tag), None)
            channel = self.observed.trace.channels.get(event.channel)
            if queue is not None and channel is not None and channel.unacked:
                return self.advice(f"the active consumer of queue {queue} is cancelled with deliveries open")
        return None

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._consumers = {place: queue for place, queue in self._consumers.items() if place[0] != event.channel}
