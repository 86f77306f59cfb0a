"""One consumer of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.amqp091.wire import Table
from amqproxy.broker.prefetch import UNLIMITED

if TYPE_CHECKING:
    from amqproxy.broker.connection.deliveries import Deliveries
    from amqproxy.broker.queues.queue import Queue


class Consumer:
    """Whoever is sent a queue's messages, as `deliveries` of its channel.

    `prefetch` bounds `unacked`, what it holds that is not acknowledged (UNLIMITED: no bound).

    `is_blocked` is the queue's mark on one that was due and could not take.
    """

    __slots__ = (
        "arguments",
        "deliveries",
        "exclusive",
        "head",
        "is_blocked",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "tag",
        "unacked",
    )

    def __init__(
        self,
        tag: str,
        queue: Queue,
        deliveries: Deliveries,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        arguments: Table,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.deliveries = deliveries
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = UNLIMITED if no_ack or not prefetch else prefetch
        self.arguments = arguments
        priority = arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0
        self.unacked = 0
        self.is_blocked = False
        self.head = b""
        """What every delivery's frame to it begins with; the channel's to keep."""

    def is_ready(self) -> bool:
        """May it be sent one more message now?"""
        return self.unacked < self.prefetch and self.deliveries.takes(self)
