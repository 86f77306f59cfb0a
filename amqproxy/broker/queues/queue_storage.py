"""Message logs of durable queues, and their content from before a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from amqproxy.broker.queues.paged_messages import Fetch
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.storage.packing import PackedMessage

Times = Callable[[int], Iterable[tuple[int, float]]]
"""Reader of a log's positions and expirations by the log's number: of all messages, without reading these."""


class QueueStorage:
    """A journal that the model writes, and the readers of what an earlier journal has left."""

    def __init__(self, journal: Journal, fetch: Fetch, times: Times = lambda log_number: ()) -> None:
        self.journal = journal
        self._fetch = fetch
        self.times = times
        self.messages_read = 0
        """Messages that were read since the start."""

    def fetch(self, log_number: int, position: int, most: int) -> Sequence[PackedMessage]:
        """Read messages of a log from the disk."""
        found = self._fetch(log_number, position, most)
        self.messages_read += len(found)
        return found

    def message_log(self, vhost: str, queue: str, priority: int) -> MessageLog:
        """Return the message log of a queue's messages of one priority."""
        return self.journal.message_log(LogOwner("queue", vhost, queue, priority))

    def priorities(self, vhost: str, queue: str, highest: int) -> Sequence[int]:
        """Return the priorities in which messages wait from before, and 0; the highest first."""
        message_logs = self.journal.message_logs
        return [each for each in range(highest, 0, -1) if LogOwner("queue", vhost, queue, each) in message_logs] + [0]

    def body_bytes(self, vhost: str, queue: str, highest: int) -> int:
        """Return the body bytes of a queue's messages of all priorities."""
        found = (self.journal.message_logs.get(LogOwner("queue", vhost, queue, each)) for each in range(highest + 1))
        return sum(message_log.body_bytes for message_log in found if message_log is not None)
