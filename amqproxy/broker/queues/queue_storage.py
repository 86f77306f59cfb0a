"""Where durable queues find their message logs, and what those hold from before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from amqproxy.broker.queues.paged_messages import Fetch
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import MessageLog

Times = Callable[[int], Iterable[tuple[int, float]]]
"""The positions in a message log, by its number, and when the message there expires: all, and so without messages."""


class QueueStorage:
    """A journal that the model writes, and how to read what an earlier one has left."""

    def __init__(self, journal: Journal, fetch: Fetch, times: Times = lambda log_number: ()) -> None:
        self.journal = journal
        self.fetch = fetch
        self.times = times

    def message_log(self, vhost: str, queue: str, priority: int) -> MessageLog:
        """The message log of a queue's messages of one priority."""
        return self.journal.message_log(LogOwner("queue", vhost, queue, priority))

    def priorities(self, vhost: str, queue: str, highest: int) -> Sequence[int]:
        """Those in which messages wait from before, and 0; the highest first."""
        message_logs = self.journal.message_logs
        return [each for each in range(highest, 0, -1) if LogOwner("queue", vhost, queue, each) in message_logs] + [0]

    def body_bytes(self, vhost: str, queue: str, highest: int) -> int:
        """What the bodies of these messages come to."""
        found = (self.journal.message_logs.get(LogOwner("queue", vhost, queue, each)) for each in range(highest + 1))
        return sum(message_log.body_bytes for message_log in found if message_log is not None)
