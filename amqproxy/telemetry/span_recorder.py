"""Spans made from the events of a connection's trace, one per message, complete once its outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.conversion.client_name import given_name
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    DeliveryMethod,
    MessageDelivered,
    MessageProperties,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    PublishMethod,
    ReturnMethod,
    Settlement,
    TraceEvent,
)
from amqproxy.telemetry.message_span import (
    DELIVER,
    GET,
    PUBLISH,
    RETURN,
    AttributeValue,
    MessageSpan,
    Operation,
    SpanFailure,
    cost_of,
    text,
)
from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.trace_context import trace_context

OpenSpans = dict[int, dict[int, MessageSpan]]
"""Open spans by channel, and there by publish number or delivery tag."""


class SpanRecorder:
    """Maker of the spans of one connection; `attributes` are common to all of them.

    A message for which `budget` has no room gets no span; `count_dropped` is called with the number of those.
    """

    def __init__(
        self,
        attributes: dict[str, AttributeValue],
        sampler: Sampler,
        budget: SpanBudget,
        count_dropped: Callable[[int], None],
    ) -> None:
        self._attributes = attributes
        self._sampler = sampler
        self._budget = budget
        self._count_dropped = count_dropped
        self._note = NOTHING
        self._finished: list[MessageSpan] = []
        self._published: OpenSpans = {}
        self._delivered: OpenSpans = {}
        self._open = 0
        self._open_size = 0
        self._closes: dict[int, SpanFailure] = {}

    def record(self, events: Iterable[TraceEvent], note: Note = NOTHING) -> list[MessageSpan]:
        """Return the spans that events complete; `note` is the effect of rules on the commands of these events.

        The consumer of the spans returns their costs to the budget.
        """
        self._note = note
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
        finished, self._finished = self._finished, []
        return finished

    def note_end(self, reason: str) -> None:
        """Note why the connection is about to end, as the failure of messages that are still open then."""
        if not self._closes.get(0):
            self._closes[0] = SpanFailure(f"open when its connection ended: {text(reason)}", "open")

    def forget(self) -> None:
        """Drop the open spans, and return their room to the budget."""
        self._budget.give(self._open, self._open_size)
        self._count_dropped(self._open)
        self._open = self._open_size = 0
        self._published.clear()
        self._delivered.clear()

    # --- beginning and end

    def _begin(
        self,
        operation: Operation,
        event: MessagePublished | MessageDelivered | MessageReturned,
        method: PublishMethod | DeliveryMethod | ReturnMethod,
        properties: MessageProperties,
    ) -> MessageSpan | None:
        """Return a span that begins with the event; `None` if its message is not sampled."""
        context = trace_context(properties.headers)
        if not self._sampler.takes(context):
            return None
        note = self._note
        return MessageSpan(
            operation=operation,
            connection=self._attributes,
            context=context,
            channel=event.channel,
            start_ns=event.ts_ns,
            exchange=method.exchange,
            routing_key=method.routing_key,
            message_id=properties.message_id,
            correlation_id=properties.correlation_id,
            size=event.size,
            rules=note.rules,
            verdict=note.verdict,
        )

    def _has_room(self, span: MessageSpan) -> bool:
        """Take room for the span; return whether there was some, and count it as dropped if not."""
        cost = cost_of(span)
        if self._budget.take(cost, self._open, self._open_size):
            span.cost = cost
            return True
        self._count_dropped(1)
        return False

    def _open_span(self, spans: OpenSpans, number: int, span: MessageSpan) -> None:
        """Keep the span open until the outcome of its message."""
        if not self._has_room(span):
            return
        by_number = spans.setdefault(span.channel, {})
        before = by_number.get(number)
        if before is not None:  # direct replies repeat their delivery tag
            self._close_span(before, Settlement.UNKNOWN, span.start_ns)
        by_number[number] = span
        self._open += 1
        self._open_size += span.cost

    def _finish_at_once(self, span: MessageSpan, outcome: str) -> None:
        """Finish the span of a message whose outcome is known at once."""
        if self._has_room(span):
            span.end_ns = span.start_ns
            span.outcome = outcome
            self._finished.append(span)

    def _close_span(self, span: MessageSpan, outcome: str, ts_ns: int) -> None:
        """Finish an open span with the outcome of its message."""
        self._open -= 1
        self._open_size -= span.cost
        span.end_ns = ts_ns
        span.outcome = outcome
        self._finished.append(span)

    def _settle(self, spans: OpenSpans, event: PublishesSettled | DeliveriesSettled) -> list[MessageSpan]:
        """Finish and return the spans of the messages that an event settles."""
        by_number = spans.get(event.channel)
        if not by_number:
            return []
        settled = []
        for numbers in event.spans:
            for number in numbers.among(by_number):
                span = by_number.pop(number, None)
                if span is not None:
                    self._close_span(span, str(event.outcome), event.ts_ns)
                    settled.append(span)
        if not by_number:
            del spans[event.channel]
        return settled

    # --- publishes

    def _on_published(self, event: MessagePublished) -> None:
        span = self._begin(PUBLISH, event, event.method, event.properties)
        if span is None:
            return
        span.delivery_tag = event.confirm_tag
        if span.verdict == "refused":
            span.failure = SpanFailure(f"refused by {', '.join(span.rules) or 'a rule'}", "refused")
        if event.awaits:
            self._open_span(self._published, event.number, span)
        else:
            self._finish_at_once(span, "unknown" if event.awaits is None else "sent")

    def _on_returned(self, event: MessageReturned) -> None:
        method = event.method
        failure = SpanFailure(f"returned: {method.reply_code} {text(method.reply_text)}", str(method.reply_code))
        waiting = self._published.get(event.channel, {}).get(event.number or 0)
        if waiting is not None:
            waiting.returned = failure
            return
        span = self._begin(RETURN, event, method, event.properties)
        if span is not None:
            span.failure = failure
            self._finish_at_once(span, "returned")

    def _on_publishes_settled(self, event: PublishesSettled) -> None:
        for span in self._settle(self._published, event):
            if span.returned is not None and event.outcome in (Settlement.CONFIRMED, Settlement.COMMITTED):
                span.outcome = "returned"
                span.failure = span.returned
            elif span.failure is None:
                span.failure = self._failure(event, "nacked by the broker")

    # --- deliveries

    def _on_delivered(self, event: MessageDelivered) -> None:
        method = event.method
        span = self._begin(GET if isinstance(method, BasicGetOk) else DELIVER, event, method, event.properties)
        if span is None:
            return
        span.queue = event.queue
        span.delivery_tag = method.delivery_tag
        span.is_redelivered = method.redelivered
        if event.outcome is not None:
            self._finish_at_once(span, event.outcome)
        elif method.delivery_tag is None:
            self._finish_at_once(span, "unknown")
        else:
            self._open_span(self._delivered, method.delivery_tag, span)

    def _on_deliveries_settled(self, event: DeliveriesSettled) -> None:
        is_refused = event.outcome in (Settlement.NACKED, Settlement.REJECTED, Settlement.RECOVERED)
        for span in self._settle(self._delivered, event):
            if is_refused:
                span.requeue = event.requeue
            span.failure = self._failure(event, f"{event.outcome} by the consumer")

    def _failure(self, event: PublishesSettled | DeliveriesSettled, refused: str) -> SpanFailure | None:
        """Return the failure that the outcome of messages stands for; `None` if it is not one."""
        if event.outcome in (Settlement.NACKED, Settlement.REJECTED):
            return SpanFailure(refused, str(event.outcome))
        if event.outcome is Settlement.OPEN:
            return self._closes.get(event.channel) or self._closes.get(0) or _OPEN
        return None

    # --- connections and channels

    def _on_connection_opened(self, event: ConnectionOpened) -> None:
        found: dict[str, AttributeValue] = dict(self._attributes)
        if event.virtual_host is not None:
            found["amqproxy.virtual_host"] = text(event.virtual_host)
        name = given_name(event.client_properties or {})
        if name:
            found["messaging.client.id"] = text(name)
        self._attributes = found

    def _on_channel_opened(self, event: ChannelOpened) -> None:
        self._closes.pop(event.channel, None)

    def _on_closed(self, event: ChannelClosed | ConnectionClosed) -> None:
        channel = event.channel
        if channel and not (self._published.get(channel) or self._delivered.get(channel)):
            return
        where = "channel" if channel else "connection"
        is_error = event.code not in (0, 200)
        reason = f": {event.code} {text(event.text)}" if is_error else ""
        self._closes[channel] = SpanFailure(
            f"open when its {where} was closed{reason}", str(event.code) if is_error else "open"
        )


_OPEN = SpanFailure("open when its channel ended", "open")

_HANDLERS: dict[type[Any], Callable[[SpanRecorder, Any], None]] = {
    ChannelClosed: SpanRecorder._on_closed,
    ChannelOpened: SpanRecorder._on_channel_opened,
    ConnectionClosed: SpanRecorder._on_closed,
    ConnectionOpened: SpanRecorder._on_connection_opened,
    DeliveriesSettled: SpanRecorder._on_deliveries_settled,
    MessageDelivered: SpanRecorder._on_delivered,
    MessagePublished: SpanRecorder._on_published,
    MessageReturned: SpanRecorder._on_returned,
    PublishesSettled: SpanRecorder._on_publishes_settled,
}
