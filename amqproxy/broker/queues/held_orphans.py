"""Messages of a deleted queue that clients hold, on the disk until settled or sent to its alternate exchange."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol

from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.definition_records import DurableOrphans
from amqproxy.broker.storage.message_log import MessageLog

if TYPE_CHECKING:
    from amqproxy.amqp091.wire import Table
    from amqproxy.broker.queues.durable_backlog import DurableBacklog
    from amqproxy.broker.queues.queue_arguments import QueueSettings
    from amqproxy.broker.storage.journal import Journal


class DeletedQueue(Protocol):
    """The properties of a deleted queue that its record keeps."""

    name: str
    arguments: Table
    settings: QueueSettings


class HeldOrphans:
    """Message logs of a deleted queue, which keep its unsettled messages under a name that is theirs alone.

    Another queue may take the old name meanwhile. After a restart, the messages in the logs go to the alternate
    exchange.
    """

    def __init__(self, queue: DeletedQueue, vhost: str, journal: Journal) -> None:
        self._journal = journal
        self._record = DurableOrphans(
            vhost=vhost,
            name=f"orphans-{secrets.token_hex(12)}",
            queue=queue.name,
            exchange=queue.settings.dead_letter_exchange or "",
            routing_key=queue.settings.dead_letter_routing_key,
            max_priority=queue.arguments.get("x-max-priority", 0),
        )
        self._held: dict[int, tuple[MessageLog, dict[int, int]]] = {}

    def keep(self, priority: int, backlog: DurableBacklog) -> None:
        """Take over the unsettled messages of one backlog of the queue."""
        message_log, out = backlog.hand_over()
        if out:
            self._journal.rename_log(message_log, LogOwner("queue", self._record.vhost, self._record.name, priority))
            if not self._held:
                self._journal.remember(self._record)
            self._held[priority] = message_log, out

    def done(self, priority: int, position: int, *, is_used: bool) -> None:
        """Release a message that is settled, or on its way to the alternate exchange."""
        held = self._held.get(priority)
        size = None if held is None else held[1].pop(position, None)
        if held is None or size is None:
            return
        held[0].settled(position, size, is_used=is_used)
        if not held[1]:
            del self._held[priority]
            self._journal.delete_log(held[0])
            if not self._held:
                self._journal.forget(self._record.key)
