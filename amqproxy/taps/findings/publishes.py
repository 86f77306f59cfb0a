"""Publishes that may be lost unnoticed, and those that were refused."""

from __future__ import annotations

from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.durable_queues import DurableQueues
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    Settlement,
)

PERSISTENT = 2
"""delivery_mode of messages that survive a restart of the broker."""


class UnconfirmedPublish(Detector):
    """A persistent message is published outside of confirm mode and of a transaction."""

    kind = "unconfirmed-publish"
    severity = Severity.WARNING
    why = "The client never learns whether the broker has it: a lost connection or a full disk loses it silently."
    remedy = "Send confirm.select on the channel, and take a message for sent once it is confirmed."

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        if event.awaits is not False or event.properties.delivery_mode != PERSISTENT:
            return None
        return f"a persistent message to exchange {event.method.exchange or 'default'} is published without confirms"


class ReturnedPublish(Detector):
    """A mandatory message could not be routed."""

    kind = "returned-publish"
    severity = Severity.WARNING
    why = "No queue is bound for its routing key: without mandatory, such messages are dropped silently."
    remedy = "Declare and bind the queue before publishing, or give the exchange an alternate exchange."

    @on(MessageReturned)
    def _on_returned(self, event: MessageReturned) -> str | None:
        method = event.method
        key = f"routing key {method.routing_key!r}"
        return f"exchange {method.exchange or 'default'} returned a message with {key}: {method.reply_text}"


class NackedPublish(Detector):
    """The broker has refused a publish."""

    kind = "nacked-publish"
    severity = Severity.ERROR
    why = "The broker did not take the message: a queue is full (overflow = reject-publish), or it failed to store it."
    remedy = "Publish it again later, and find out why the queue is full."

    @on(PublishesSettled)
    def _on_settled(self, event: PublishesSettled) -> str | None:
        if event.outcome is not Settlement.NACKED or not event.spans:
            return None
        return f"{sum(span.count for span in event.spans)} messages were nacked"


class TransientToDurableQueue(Detector):
    """A message that does not survive a restart goes to a queue that does."""

    kind = "transient-to-durable"
    severity = Severity.INFO
    why = "The queue survives a restart of the broker, its messages do not."
    remedy = (
        "Publish with delivery_mode = 2; if losing messages is fine, leave it, or use an exclusive queue, or x-expires."
    )

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._queues = DurableQueues()

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> None:
        request = equivalent(event.request)
        if isinstance(request, QueueDeclare):
            self._queues.note(request, event.reply if isinstance(event, RequestAnswered) else None)

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> str | None:
        method = event.method
        if method.exchange or event.properties.delivery_mode == PERSISTENT or method.routing_key not in self._queues:
            return None
        return f"a transient message is published to the durable queue {method.routing_key}"
