"""Life of one message: its publish, and its deliveries on all connections."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

LIFE_COST = 700
"""Approximate bytes of a life with its publish and its places in the linker's tables, besides its texts."""

DELIVERY_COST = 500
"""Approximate bytes of a delivery, likewise."""


MAX_DELIVERIES = 256
"""Maximum number of a life's deliveries: a message that is requeued without end has millions."""

KEPT_FIRST = MAX_DELIVERIES // 2
"""Number of deliveries that are kept from the beginning; beyond `MAX_DELIVERIES` the oldest after them is left out."""

MAX_REPLIES = 256
"""Maximum number of a life's replies: the first."""


class Place(NamedTuple):
    """A channel of a connection."""

    stream: int
    channel: int
    epoch: int


class Publish(msgspec.Struct, gc=False, eq=False):
    """A publish. `outcome` is `None` until it is known; one that `takes_part` may have reached a queue.

    `is_uncommitted` is whether it waits for the end of its transaction.
    """

    ts_ns: int
    place: Place
    number: int
    virtual_host: str | None
    exchange: str
    routing_key: str
    size: int | None
    message_id: str | None
    correlation_id: str | None
    reply_to: str | None
    outcome: str | None = None
    settled_ns: int | None = None
    is_returned: bool = False
    is_uncommitted: bool = False
    takes_part: bool = True


class Group(NamedTuple):
    """Deliveries of which each message has at most one that is not a redelivery.

    `queue` is its name and virtual host, or the consumer if the queue is unknown. `deaths` counts dead-letterings.
    `exchange` and `routing_key` are those that the messages were published with, `None` for any.
    """

    queue: tuple[object, ...]
    deaths: int
    exchange: str | None
    routing_key: str | None

    def fits(self, life: MessageLife) -> bool:
        """Whether the message was published to this exchange with this routing key."""
        publish = life.publish
        assert publish is not None
        return self.exchange is None or (publish.exchange == self.exchange and publish.routing_key == self.routing_key)


class Delivery(msgspec.Struct, gc=False, eq=False):
    """A delivery, linked to the publish of its `life`, unless that has none.

    `among` is the number of publishes that it can have come from, as far as they are remembered. `is_certain` is
    whether none but those were possible: nothing alike was missed, forgotten, or published before the observation.
    `died_in` and `died_of` are of the last dead-lettering. `former` is the delivery of the same message that this one
    repeats or follows.
    """

    ts_ns: int
    place: Place
    tag: int | None
    queue: str | None
    consumer_tag: str | None
    group: Group
    is_redelivered: bool
    is_browsed: bool
    died_in: str | None = None
    died_of: str | None = None
    among: int = 0
    is_certain: bool = False
    former: Delivery | None = None
    outcome: str | None = None
    settled_ns: int | None = None
    requeue: bool | None = None
    life: MessageLife | None = None

    @property
    def is_final(self) -> bool:
        """Whether the queue does not deliver the message again, as far as the client's answer tells."""
        if self.outcome in ("acked", "auto-acked"):
            return True
        return self.outcome in ("nacked", "rejected") and self.requeue is False

    @property
    def is_sure(self) -> bool:
        """Whether the delivery can only be of this publish."""
        return self.among == 1 and self.is_certain and self.life is not None and not self.life.is_uncommitted


class MessageLife(msgspec.Struct, gc=False, eq=False):
    """A message: its `publish`, if that was seen, and its deliveries, in order.

    `request` is the number of the life that this message replies to, `request_among` the number of requests that it can
    reply to; `replies` are the numbers of its first replies, `more_replies` counts the others. `unpublished_id` is the
    message_id of one without a publish.

    `left_out` deliveries are missing after the first `KEPT_FIRST`; `is_cut` is whether they are needed to link others.
    `is_listed` is whether the life waits among the settled ones to be forgotten.
    """

    number: int
    key: int
    is_by_id: bool
    publish: Publish | None
    deliveries: list[Delivery] = []
    request: int | None = None
    request_among: int = 0
    replies: list[int] = []
    more_replies: int = 0
    unpublished_id: str | None = None
    cost: int = LIFE_COST
    left_out: int = 0
    is_cut: bool = False
    is_listed: bool = False

    def leave_out(self) -> Delivery | None:
        """Remove and return the oldest delivery after the first ones, if there are too many."""
        if len(self.deliveries) <= MAX_DELIVERIES:
            return None
        oldest = self.deliveries.pop(KEPT_FIRST)
        self.left_out += 1
        # a repeated delivery that was returned to its queue says nothing that the next one does not
        self.is_cut |= oldest.is_final or not oldest.is_redelivered
        for each in self.deliveries[KEPT_FIRST:]:
            if each.former is oldest:
                each.former = None
        oldest.life = oldest.former = None
        return oldest

    @property
    def message_id(self) -> str | None:
        """The message_id, of the deliveries if the publish was not seen."""
        return self.unpublished_id if self.publish is None else self.publish.message_id

    @property
    def is_uncommitted(self) -> bool:
        """Whether the message waits for the end of its transaction."""
        return self.publish is not None and self.publish.is_uncommitted

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is expected: all deliveries have an outcome, or the publish has reached no queue."""
        publish = self.publish
        if publish is not None and not publish.takes_part:
            return True
        is_open = publish is not None and publish.outcome is None
        return not is_open and bool(self.deliveries) and all(each.outcome is not None for each in self.deliveries)

    @property
    def ts_ns(self) -> int:
        """Time of the publish, or else of the first delivery."""
        return self.publish.ts_ns if self.publish is not None else self.deliveries[0].ts_ns
