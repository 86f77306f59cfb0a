"""The life of one message as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.linking.life_record import DeliveryRecord, LifeRecord, PublishRecord
from amqproxy.linking.message_life import KEPT_FIRST
from amqproxy.taps.message_text import duration
from amqproxy.taps.text import ARROWS, clock, pairs, printable, value_text


def life_lines(record: LifeRecord) -> Iterator[str]:
    """Yield the title of a life, and a line for each step, with the time since the publish."""
    yield title(record)
    yield from (line for line, _ in steps(record))


def title(record: LifeRecord) -> str:
    """Return the title of a life: its number, and what its steps are linked by."""
    return f"message {record.life}, {_link(record)}"


def steps(record: LifeRecord) -> Iterator[tuple[str, bool]]:
    """Yield the line of each step of a life, and whether its outcome is known."""
    if record.publish is not None:
        publish = record.publish
        yield f"  {_published(publish)}", publish.returned or publish.outcome is not None
    for number, delivery in enumerate(record.deliveries):
        if record.left_out and number == KEPT_FIRST:
            yield f"  … {record.left_out:,} more deliveries …", False
        yield f"  {_delivered(delivery, is_published=record.publish is not None)}", delivery.outcome is not None
    if record.request is not None:
        among = f", or one of {record.request_among - 1} alike" if record.request_among > 1 else ""
        yield f"  replies to message {record.request}{among}", True
    if record.replies:
        more = f" and {record.more_replies:,} more" if record.more_replies else ""
        yield f"  answered by message {', '.join(map(str, record.replies))}{more}", True


def _link(record: LifeRecord) -> str:
    publish = record.publish
    if publish is None:
        return "whose publish was not seen"
    named = f" {value_text(publish.message_id)}" if record.linked_by == "message_id" else ""
    return f"linked by {record.linked_by}{named}"


def _published(publish: PublishRecord) -> str:
    named = {"exchange": publish.exchange, "routing_key": publish.routing_key}
    size = "" if publish.size is None else f" {publish.size} bytes"
    outcome = "returned" if publish.returned else publish.outcome or "pending"
    return (
        f"{clock(publish.ts_ns)} {_who(publish)} {ARROWS['client']} publish  {pairs(named)}{size}  "
        f"⇒ {outcome}{_took(publish.seconds)}"
    )


def _delivered(delivery: DeliveryRecord, *, is_published: bool) -> str:
    parts = [f"{clock(delivery.ts_ns)} {_who(delivery)} {ARROWS['server']} deliver "]
    parts.append(f"queue={value_text(delivery.queue)}" if delivery.queue is not None else "queue unknown")
    if delivery.redelivered:
        parts.append("redelivered")
    if delivery.died_in is not None:
        parts.append(f"dead letter of {value_text(delivery.died_in)} ({printable(delivery.died_of or '')})")
    if delivery.transit_seconds is not None:
        parts.append(f"{duration(delivery.transit_seconds)} after publish")
    requeued = "" if delivery.requeue is None else " (requeued)" if delivery.requeue else " (not requeued)"
    parts.append(f" ⇒ {delivery.outcome or 'pending'}{requeued}{_took(delivery.seconds)}")
    if is_published and not delivery.sure:
        parts.append(f" [not sure: {_doubt(delivery.among)}]")
    return " ".join(parts)


def _doubt(among: int) -> str:
    return f"one of {among} alike" if among > 1 else "an alike message may have been missed"


def _who(step: PublishRecord | DeliveryRecord) -> str:
    name: Any = step.connection
    named = "" if name is None else f" {value_text(name)}"
    return f"#{step.stream}{named} ch {step.channel}"


def _took(seconds: float | None) -> str:
    return "" if seconds is None else f", {duration(seconds)}"
