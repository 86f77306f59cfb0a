"""One consumer of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.amqp091.wire import Table

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue
    from amqproxy.broker.server_channel import ServerChannel

UNLIMITED = 1 << 62


class Consumer:
    """`prefetch` bounds `unacked`, what it holds that is not acknowledged (UNLIMITED: no bound).

    `is_blocked` is the queue's mark on one that was due and could not take.
    """

    __slots__ = (
        "arguments",
        "channel",
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
        channel: ServerChannel,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        arguments: Table,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.channel = channel
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

    @property
    def is_ready(self) -> bool:
        """May it be sent one more message now?"""
        return self.unacked < self.prefetch and self.channel.takes(self)
