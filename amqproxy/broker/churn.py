"""Counts of the connections, channels and queues of a broker that came and went."""

from __future__ import annotations


class Churn:
    """Objects created and deleted since the start; `queue_declared` also counts declares of existing queues."""

    def __init__(self) -> None:
        self.channel_closed = self.channel_created = 0
        self.connection_closed = self.connection_created = 0
        self.queue_created = self.queue_declared = self.queue_deleted = 0

    def count_declare(self, *, is_new: bool) -> None:
        """Count a queue that a client declares."""
        self.queue_declared += 1
        self.queue_created += is_new

    def values(self) -> tuple[int, ...]:
        """Return the counts in the order of `CHURN`."""
        return tuple([getattr(self, name) for name in CHURN])


CHURN = (
    *("channel_closed", "channel_created", "connection_closed", "connection_created"),
    *("queue_created", "queue_declared", "queue_deleted"),
)
"""Names of all counts, in RabbitMQ's words."""
