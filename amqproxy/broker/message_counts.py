"""Counts of the messages that pass a queue, an exchange, a channel or a virtual host, on their hot path."""

from __future__ import annotations


class MessageCounts:
    """Messages counted since the object was created, as RabbitMQ's management counts them.

    `published` counts publishes to the object, `routed` those from an exchange, or in a virtual host, to a queue, once
    for each queue.
    Deliveries and gets without acknowledgement are counted apart from the others; of all of them, `redelivered` is the
    part that was delivered before. `returned` and `dropped` are unroutable: mandatory ones, and others. Dead letters,
    and messages that the broker itself publishes, are not counted.
    """

    __slots__ = (
        "acked",
        "confirmed",
        "delivered",
        "delivered_no_ack",
        "dropped",
        "got",
        "got_empty",
        "got_no_ack",
        "published",
        "redelivered",
        "returned",
        "routed",
    )

    def __init__(self) -> None:
        self.published = self.confirmed = self.returned = self.dropped = self.routed = 0
        self.delivered = self.delivered_no_ack = self.got = self.got_no_ack = self.got_empty = 0
        self.redelivered = self.acked = 0

    @property
    def activity(self) -> int:
        """The sum of all counts, which tells whether any has changed."""
        return (
            self.published
            + self.confirmed
            + self.returned
            + self.dropped
            + self.routed
            + self.delivered
            + self.delivered_no_ack
            + self.got
            + self.got_no_ack
            + self.got_empty
            + self.redelivered
            + self.acked
        )

    def values(self) -> tuple[int, ...]:
        """Return the counts in the order of `COUNTS`."""
        return (
            self.published,
            self.confirmed,
            self.returned,
            self.dropped,
            self.routed,
            self.delivered,
            self.delivered_no_ack,
            self.got,
            self.got_no_ack,
            self.got_empty,
            self.redelivered,
            self.acked,
        )

    def plus(self, others: MessageCounts) -> tuple[int, ...]:
        """Return the sums of these counts and others, in the order of `COUNTS`."""
        return tuple([mine + other for mine, other in zip(self.values(), others.values(), strict=True)])

    def add(self, others: MessageCounts) -> None:
        """Add others to these counts."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(others, name))


COUNTS = (
    *("published", "confirmed", "returned", "dropped", "routed"),
    *("delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty", "redelivered", "acked"),
)
"""Names of all counts."""
