"""The life of one message as a record: the JSON contract of `decode --life` and of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from amqproxy.linking.linked_connection import NOT_KNOWN, LinkedConnection
from amqproxy.linking.message_life import Delivery, MessageLife, Publish
from amqproxy.taps.leg_number import shown_number
from amqproxy.taps.record import encoded, json_value
from amqproxy.taps.trace.events import Settlement


class PublishRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The publish. `seconds` is the time until its outcome.

    `connection` is the client's name for it, if it gave one.
    """

    ts_ns: int
    stream: int
    connection: Any = None
    user: Any = None
    channel: int
    number: int
    virtual_host: Any = None
    exchange: Any
    routing_key: Any
    size: int | None = None
    message_id: Any = None
    correlation_id: Any = None
    reply_to: Any = None
    returned: bool = False
    outcome: str | None = None
    seconds: float | None = None


class DeliveryRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A delivery. It is `sure` to be of this publish, or may be of `among` alike ones.

    `transit_seconds` is the time since the publish, `seconds` that from the delivery to its outcome. `follows` is the
    place of an earlier delivery of the message, from 0: it was delivered again, or dead-lettered in queue `died_in`.
    """

    ts_ns: int
    stream: int
    connection: Any = None
    user: Any = None
    channel: int
    delivery_tag: int | None = None
    consumer_tag: Any = None
    queue: Any = None
    redelivered: bool = False
    browsed: bool = False
    died_in: Any = None
    died_of: Any = None
    sure: bool = False
    among: int = 0
    follows: int | None = None
    transit_seconds: float | None = None
    outcome: str | None = None
    requeue: bool | None = None
    seconds: float | None = None


class LifeRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The life of message number `life`; `linked_by` is "message_id" or "content".

    `publish` is absent if it was not seen. `request` is the life that this message replies to, among `request_among`
    alike requests. Of more than 256 deliveries, `left_out` are missing after the first 128, and of its replies, all but
    the first 256, which `more_replies` counts.
    """

    life: int
    linked_by: str
    publish: PublishRecord | None = None
    deliveries: list[DeliveryRecord] = []
    left_out: int = 0
    request: int | None = None
    request_among: int = 0
    replies: list[int] = []
    more_replies: int = 0

    def to_json(self) -> bytes:
        """Return the record as a line of JSON, without a newline."""
        return encoded(self)

    @property
    def first_ns(self) -> int:
        """Time of the publish, or else of the first delivery."""
        return self.publish.ts_ns if self.publish is not None else self.deliveries[0].ts_ns if self.deliveries else 0


def life_record(life: MessageLife, connections: Mapping[int, LinkedConnection]) -> LifeRecord:
    """Return the record of a life."""
    publish = life.publish
    return LifeRecord(
        life=life.number,
        linked_by="message_id" if life.is_by_id else "content",
        publish=None if publish is None else _of_publish(publish, connections),
        deliveries=[_of_delivery(each, life, connections) for each in life.deliveries],
        left_out=life.left_out,
        request=life.request,
        request_among=life.request_among,
        replies=list(life.replies),
        more_replies=life.more_replies,
    )


def _of_publish(publish: Publish, connections: Mapping[int, LinkedConnection]) -> PublishRecord:
    place = publish.place
    by = connections.get(place.stream, NOT_KNOWN)
    return PublishRecord(
        ts_ns=publish.ts_ns,
        stream=shown_number(place.stream),
        connection=json_value(by.name),
        user=json_value(by.user),
        channel=place.channel,
        number=publish.number,
        virtual_host=json_value(publish.virtual_host),
        exchange=json_value(publish.exchange),
        routing_key=json_value(publish.routing_key),
        size=publish.size,
        message_id=json_value(publish.message_id),
        correlation_id=json_value(publish.correlation_id),
        reply_to=json_value(publish.reply_to),
        returned=publish.is_returned,
        outcome=publish.outcome,
        seconds=None if publish.outcome in _NOT_SETTLED else _seconds(publish.ts_ns, publish.settled_ns),
    )


def _of_delivery(delivery: Delivery, life: MessageLife, connections: Mapping[int, LinkedConnection]) -> DeliveryRecord:
    place = delivery.place
    to = connections.get(place.stream, NOT_KNOWN)
    former = [number for number, each in enumerate(life.deliveries) if each is delivery.former]
    return DeliveryRecord(
        ts_ns=delivery.ts_ns,
        stream=shown_number(place.stream),
        connection=json_value(to.name),
        user=json_value(to.user),
        channel=place.channel,
        delivery_tag=delivery.tag,
        consumer_tag=json_value(delivery.consumer_tag),
        queue=json_value(delivery.queue),
        redelivered=delivery.is_redelivered,
        browsed=delivery.is_browsed,
        died_in=json_value(delivery.died_in),
        died_of=json_value(delivery.died_of),
        sure=delivery.is_sure,
        among=delivery.among,
        follows=former[0] if former else None,
        transit_seconds=None if life.publish is None else _seconds(life.publish.ts_ns, delivery.ts_ns),
        outcome=delivery.outcome,
        requeue=delivery.requeue,
        seconds=None if delivery.outcome in _NOT_SETTLED else _seconds(delivery.ts_ns, delivery.settled_ns),
    )


def _seconds(since_ns: int, until_ns: int | None) -> float | None:
    return None if until_ns is None else (until_ns - since_ns) / 1e9


_NOT_SETTLED = frozenset((Settlement.OPEN, Settlement.UNKNOWN))
"""Outcomes that only say that none was seen."""
